"""The records in the response to a pop. Pure."""

from collections.abc import Iterable, Iterator

from staticfire.broker.store.outcomes import ReadResult
from staticfire.protocol.limits import INT32_MAX, PROPERTIES_BYTES_MAX
from staticfire.protocol.numbers import INT64_MAX, INT64_MIN
from staticfire.protocol.pop_handles import RETRY_V2, PopHandle, format_handle
from staticfire.protocol.properties import POP_CK, too_long, with_property
from staticfire.protocol.record import peek_record
from staticfire.protocol.record_copies import cut, renamed


def offsets_of(found: ReadResult, slices: list[bytes]) -> list[int]:
    """Return the queue offset of each record that was found."""
    first, end = found.first_offset, found.end_offset
    if end - first == len(found.sizes):
        return list(range(first, end))
    return [peek_record(record).queue_offset for record in single_records(slices, found.sizes)]


def single_records(slices: list[bytes], sizes: Iterable[int]) -> Iterator[bytes]:
    """Yield the records one by one; a slice may contain several."""
    sizes = list(sizes)
    if len(slices) == len(sizes):
        yield from slices
        return
    whole = b"".join(slices)
    at = 0
    for size in sizes:
        yield whole[at : at + size]
        at += size


def rewritten(stored: bytes, packed_topic: bytes, handle: PopHandle) -> bytes:
    """Return a record of a retry topic under another topic. `handle`: the check-point's.

    Raises: ProtocolError (its properties have no room for the handle).
    """
    parts = cut(stored)
    text = format_handle(handle._replace(queue_offset=parts.queue_offset))
    properties = with_property(parts.properties, POP_CK, text)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise too_long(properties)
    return renamed(parts, packed_topic, properties)


def handle_bytes_max(broker_name: str) -> int:
    """Return how many bytes `rewritten` adds to the properties of a record at most."""
    longest = PopHandle(INT64_MAX, INT64_MAX, INT64_MIN, 0, RETRY_V2, broker_name, INT32_MAX, INT64_MAX)
    return len(with_property(b"", POP_CK, format_handle(longest)))
