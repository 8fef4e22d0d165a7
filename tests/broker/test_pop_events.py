"""The events of POP as they are in the log."""

import msgspec
import pytest

from staticfire.broker.pop.events import (
    Done,
    Event,
    GroupQueue,
    Ordered,
    OrderState,
    Taken,
    encode_event,
    join_events,
    read_events,
)
from staticfire.protocol.errors import ProtocolError

pytestmark = pytest.mark.row("G1")

PLACE = GroupQueue("billing", "orders", 0)
TAKEN = Taken(PLACE, 3, 1_000, 61_000, b"\x07", 6)
DONE = Done(PLACE, 3, 1_000, b"\x01")
TOO_LATE = Ordered(PLACE, OrderState(1_000, 60_000, None, [0], visible_ms={0: 1 << 63}))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_event_that_cant_be_read_costs_only_itself(at: int) -> None:
    """Earlier versions wrote such times, next to events of other groups."""
    events: list[Event] = [TAKEN, DONE]
    events.insert(at, TOO_LATE)
    read = read_events(join_events(17, [encode_event(event) for event in events]))
    assert (read.low_water, read.events) == (17, [TAKEN, DONE])
    assert len(read.errors) == 1
    assert "<= 9223372036854775807" in read.errors[0]


def test_events_that_can_be_read_have_no_errors() -> None:
    read = read_events(join_events(17, [encode_event(TAKEN), encode_event(DONE)]))
    assert (read.low_water, read.events, read.errors) == (17, [TAKEN, DONE], [])


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_a_record_that_is_no_list_of_events_is_an_error(cut: int) -> None:
    whole = join_events(17, [encode_event(TAKEN), encode_event(TOO_LATE)])
    for body in (whole[:cut], whole[: len(whole) - 1 - cut], msgspec.msgpack.encode([1 << 63, []])):
        with pytest.raises(ProtocolError, match="these are not POP events"):
            read_events(body)
