"""What a run was like in numbers, from events that were written by hand."""

import pytest

from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    ProcessEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    SendFailed,
)
from staticfire.simulation.runs.measures import RunMeasures, RunMeter, part_of

pytestmark = pytest.mark.row("S3")

QUEUE = ("broker-a", "orders", 0)
RETRIES = ("broker-a", "%RETRY%billing", 0)


class Story:
    """Events of one group on one queue."""

    def __init__(self) -> None:
        self._meter = RunMeter({"billing": ("orders",)})
        self._calls = 0

    def hear(self, *events: RunEvent) -> None:
        for event in events:
            self._meter.see(event)

    def stored(self, at_ms: int, name: str) -> None:
        self.hear(SendBegan(at_ms, name, "orders"), SendAcknowledged(at_ms, name, QUEUE, 0, 0))

    def begins(self, at_ms: int, member: str, name: str, place: tuple[str, str, int] = QUEUE, tried: int = 0) -> int:
        self._calls += 1
        self.hear(CallBegan(at_ms, self._calls, "billing", member, place, (Seen(name, 0, tried, tried > 0),)))
        return self._calls

    def ends(self, at_ms: int, call: int, is_success: bool = True) -> None:
        self.hear(CallEnded(at_ms, call, is_success))

    def measures(self, end_ms: int) -> RunMeasures:
        return self._meter.measures(end_ms)


def test_a_queue_is_idle_while_a_message_waits_and_no_member_works_on_it() -> None:
    story = Story()
    story.stored(100, "m1")
    call = story.begins(150, "one", "m1")
    story.stored(160, "m2")  # It waits for the listener, which is at work.
    story.ends(200, call)
    story.ends(230, story.begins(220, "one", "m2"))
    found = story.measures(1_000)
    assert (found.idle_ms, found.handled, found.duplicates, found.take_overs) == (50 + 20, 2, 0, 0)
    assert (found.latency_p50_ms, found.latency_max_ms) == (70, 100)


def test_a_take_over_takes_as_long_as_its_first_new_message_waited() -> None:
    story = Story()
    story.stored(0, "m1")
    story.begins(10, "one", "m1")
    story.hear(ProcessEnded(20, "one", "killed"))
    story.stored(500, "m2")
    story.ends(5_010, story.begins(5_000, "two", "m1"))  # Again, but never handled before: no duplicate.
    story.ends(5_110, story.begins(5_100, "two", "m2"))
    found = story.measures(6_000)
    assert (found.take_overs, found.take_over_p50_ms, found.duplicates) == (1, 4_600, 0)
    assert found.idle_ms == 10 + (5_000 - 500) + (5_100 - 5_010)


def test_what_is_handled_again_is_a_duplicate_and_two_owners_at_once_are_counted() -> None:
    story = Story()
    story.stored(0, "m1")
    one, two = story.begins(0, "one", "m1"), story.begins(30, "two", "m1")
    story.ends(50, one)
    story.ends(80, two)
    found = story.measures(100)
    assert (found.handled, found.duplicates, found.overlap_ms) == (1, 1, 20)


def test_retries_and_delays_are_no_latency_and_no_idle_time() -> None:
    story = Story()
    story.hear(SendBegan(0, "later", "orders", due_ms=500), SendAcknowledged(1, "later", QUEUE, 0, 0))
    story.stored(0, "m1")
    story.hear(SendBegan(5, "lost", "orders"), SendFailed(6, "lost", "timeout"))
    story.ends(10, story.begins(0, "one", "m1"), is_success=False)
    story.ends(9_010, story.begins(9_000, "two", "m1", RETRIES, tried=1))
    found = story.measures(10_000)
    assert (found.sent, found.send_failures, found.failed_calls, found.handled) == (3, 1, 1, 1)
    assert (found.latency_p50_ms, found.idle_ms, found.take_overs) == (None, 0, 0)


@pytest.mark.parametrize(("part", "value"), [(0.5, 2), (0.99, 4), (1, 4), (0.25, 1)])
def test_parts_are_numbers_that_were_measured(part: float, value: int) -> None:
    assert part_of([1, 2, 3, 4], part) == value
    assert part_of([], part) is None
