"""Every input of the compiled twin, cut at each byte and with each bit turned, comes back.

`make test-sanitizers` runs these with a twin that sees each byte that is read or written beyond an end.
"""

import pytest

from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.compiled import twin
from tests.broker.two_brokers import sent
from tests.fuzz.__main__ import read_many
from tests.fuzz.compiled_inputs import (
    FIRST_OFFSET,
    POSITION,
    USUAL,
    Take,
    end_of,
    frame,
    stored,
    take_json,
    take_native,
)
from tests.fuzz.compiled_parts import CompiledParts, Entry, entries, mend_frame

pytestmark = pytest.mark.skipif(twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set")

ENTRIES = [] if twin is None else entries(twin)
FRAMES = 40_000
SEED = 2013
EACH = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)

BOTH_CODECS = pytest.mark.parametrize(("take", "codec"), [(take_native, NATIVE), (take_json, JSON)])


@EACH
def test_whole_inputs_are_not_left_to_python(entry: Entry) -> None:
    assert all(entry.run(data) for data in entry.inputs)


@EACH
def test_inputs_that_are_cut_or_turned_come_back(entry: Entry) -> None:
    for data in entry.inputs:
        for spoilt in entry.spoilt(data):
            entry.run(spoilt)


@BOTH_CODECS
@pytest.mark.parametrize("queue_id", [b"99x", b"\x7f" * 9, b"-1", b" 1", b"+1", b"9" * 10, b"/", b":"])
def test_a_kept_half_message_of_no_queue_is_left_to_python(take: Take, codec: int, queue_id: bytes) -> None:
    end = frame(end_of(FIRST_OFFSET, POSITION), codec)
    for digits, is_taken in ((queue_id, False), (b"1", True)):
        properties = b"PGROUP\x01shop\x02REAL_TOPIC\x01orders\x02REAL_QID\x01" + digits + b"\x02"
        taken = take(end, USUAL, {POSITION: stored(properties, b"body")})
        assert (taken is not None) == is_taken


@BOTH_CODECS
def test_a_kept_half_message_of_no_group_ends_for_no_group(take: Take, codec: int) -> None:
    half = stored(b"REAL_TOPIC\x01orders\x02REAL_QID\x011\x02", b"body")
    for group, is_taken in (("", True), ("shop", False)):
        request = end_of(FIRST_OFFSET, POSITION)
        request.producer_group = group
        assert (take(frame(request, codec), USUAL, {POSITION: half}) is not None) == is_taken


def test_a_header_that_ends_where_its_properties_begin_is_left_to_python() -> None:
    """There are no bytes left in which escapes could be replaced."""
    whole = frame(sent(), JSON)
    cut = whole[: whole.index(b'"i":"') + len(b'"i":"')]
    assert take_json(mend_frame(cut)) is None


async def test_spoilt_inputs_come_back() -> None:
    assert twin is not None
    parts = CompiledParts(twin, SEED)
    await read_many(parts.read, FRAMES)
    assert {name.rpartition(":")[0] for name in parts.seen} == {entry.name for entry in ENTRIES}
