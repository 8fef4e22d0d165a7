"""Records as a pop's answer has them. Pure."""

from collections.abc import Iterable, Iterator

from staticfire.broker.store.outcomes import ReadResult
from staticfire.protocol.pop_handles import PopHandle, format_handle
from staticfire.protocol.properties import POP_CK, with_property
from staticfire.protocol.record import decode_record, pack_record, pack_topic, peek_record


def offsets_of(found: ReadResult, slices: list[bytes]) -> list[int]:
    """Return the queue offset of each record that was found."""
    first, end = found.first_offset, found.end_offset
    if end - first == len(found.sizes):
        return list(range(first, end))
    return [peek_record(record).queue_offset for record in single_records(slices, found.sizes)]


def single_records(slices: list[bytes], sizes: Iterable[int]) -> Iterator[bytes]:
    """Yield records one by one that may lie side by side in one slice."""
    sizes = list(sizes)
    if len(slices) == len(sizes):
        yield from slices
        return
    whole = b"".join(slices)
    at = 0
    for size in sizes:
        yield whole[at : at + size]
        at += size


def rewritten(stored: bytes, topic: str, handle: PopHandle) -> bytes:
    """Return a record of a retry topic as one of that topic. `handle`: the check-point's. Raises: ProtocolError."""
    record = decode_record(stored)
    text = format_handle(handle._replace(queue_offset=record.queue_offset))
    return pack_record(
        record.log_position, record.queue_id, record.queue_offset, record.stored_ms, record.born_ms, record.sys_flag,
        record.flag, record.reconsume_times, record.prepared_position, record.born_host, pack_topic(topic),
        with_property(record.properties, POP_CK, text), record.body,
    )  # fmt: skip
