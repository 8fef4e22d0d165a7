"""The messages of a batch as rows of records. The compiled version does this and packs them, too."""

from collections.abc import Iterable

from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.plain_records import Row
from staticfire.protocol.rocketmq_record import BatchMessage
from staticfire.protocol.tags import code_of_tag, tags_code

_END = 0x02


def batch_rows(messages: Iterable[BatchMessage], added: bytes) -> list[Row] | None:
    """Return each message as it is stored, with `added` after its properties; None if a message is illegal.

    A message is illegal if it has no body, or more properties than a record can have.
    """
    rows = []
    may_be_quick = b"TAGS\x01" not in added
    for flag, body, properties in messages:
        if properties and properties[-1] != _END:
            properties += b"\x02"
        whole = properties + added
        if not body or len(whole) > PROPERTIES_BYTES_MAX:
            return None
        # This is the same as `tags_code`, in half the time unless the tag is the first property.
        _, found, behind = properties.rpartition(b"\x02TAGS\x01")
        tag = behind.partition(b"\x02")[0]
        code = code_of_tag(tag) if found and tag and may_be_quick else tags_code(whole)
        rows.append((flag, whole, body, code))
    return rows
