"""The bodies of pulls as RocketMQ's clients get them."""

from staticfire.protocol.record import StoredRecord
from staticfire.protocol.rocketmq_record import from_rocketmq


def split_rocketmq(data: bytes, check_body: bool = True) -> list[tuple[StoredRecord, bytes]]:
    """Return every record of a pull's answer with its store host. Raises: ProtocolError."""
    records = []
    at = 0
    while at < len(data):
        record, store_host, size = from_rocketmq(data, at, check_body)
        records.append((record, store_host))
        at += size
    return records
