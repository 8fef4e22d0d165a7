"""The messages of a batch as the rows of records that they become. The compiled twin does this and packs them, too."""

from collections.abc import Iterable

from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.plain_records import Row
from staticfire.protocol.rocketmq_record import BatchMessage
from staticfire.protocol.tags import code_of_tag, tags_code

_END = 0x02


def batch_rows(messages: Iterable[BatchMessage], added: bytes) -> list[Row] | None:
    """Return each message as it is stored, its properties with `added` behind them; None if one is illegal.

    Illegal is a message without a body, or with more properties than a record can have.
    """
    rows = []
    may_be_quick = b"TAGS\x01" not in added
    for flag, body, properties in messages:
        if properties and properties[-1] != _END:
            properties += b"\x02"
        whole = properties + added
        if not body or len(whole) > PROPERTIES_BYTES_MAX:
            return None
        # What `tags_code` does, in half the time if the tag isn't the first property.
        _, found, behind = properties.rpartition(b"\x02TAGS\x01")
        tag = behind.partition(b"\x02")[0]
        code = code_of_tag(tag) if found and tag and may_be_quick else tags_code(whole)
        rows.append((flag, whole, body, code))
    return rows
