"""The messages of a batch as rows of records. The compiled version does this and packs them, too."""

from collections.abc import Iterable
from typing import TypeAlias

from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.properties import with_last_end
from staticfire.protocol.rocketmq_record import BatchMessage
from staticfire.protocol.tags import tags_code

Row: TypeAlias = tuple[int, bytes, bytes, int]
"""One record of a row: flag, properties, body, tags code."""


def batch_rows(messages: Iterable[BatchMessage], added: bytes) -> list[Row] | None:
    """Return each message as it is stored, with `added` after its properties; None if a message is illegal.

    A message is illegal if it has no body, or more properties than a record can have.
    """
    rows = []
    for flag, body, properties in messages:
        whole = with_last_end(properties) + added
        if not body or len(whole) > PROPERTIES_BYTES_MAX:
            return None
        rows.append((flag, whole, body, tags_code(whole)))
    return rows
