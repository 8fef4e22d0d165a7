"""Who waits for answers waits exactly as long as it wants, with one timer for all."""

from collections.abc import Callable, Iterator

import pytest

from staticfire.protocol.command import declaration_of
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.runtime.pending_answers import PendingAnswer, PendingAnswers
from staticfire.simulation.world import JumpingLoop

DECLARATION = declaration_of(GetMaxOffset)


class Stand:
    """Pending answers in virtual time, and who expired when."""

    def __init__(self, loop: JumpingLoop) -> None:
        self.loop = loop
        self.expired: list[tuple[str, float]] = []
        self.pending = PendingAnswers(loop, self._expire)
        self.then: Callable[[], None] = lambda: None

    def _expire(self, pending: PendingAnswer) -> None:
        self.expired.append((pending.name, self.loop.time()))
        self.then()

    def add(self, opaque: int, timeout_ms: int) -> None:
        self.pending.add(opaque, lambda outcome: None, DECLARATION.answer, f"request {opaque}", timeout_ms)

    def stall_at(self, when_s: float, seconds: float) -> None:
        """Let the process do nothing for some seconds from then on."""

        def stall() -> None:
            self.loop.uptime_ns += round(seconds * 1e9)

        self.loop.call_at(when_s, stall)

    def run_for(self, seconds: float) -> None:
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()


@pytest.fixture
def stand() -> Iterator[Stand]:
    loop = JumpingLoop()
    yield Stand(loop)
    loop.close()


def test_each_expires_at_its_own_time(stand: Stand) -> None:
    for opaque, timeout_ms in enumerate([30_000, 10, 3_000, 10, 20]):
        stand.add(opaque, timeout_ms)
    stand.run_for(60)
    assert stand.expired == [
        ("request 1", 0.01), ("request 3", 0.01), ("request 4", 0.02), ("request 2", 3.0), ("request 0", 30.0),
    ]  # fmt: skip


def test_what_is_answered_expires_never_and_is_taken_once(stand: Stand) -> None:
    stand.add(1, 10)
    stand.add(2, 20)
    assert stand.pending.take(1) is not None
    assert stand.pending.take(1) is None
    stand.run_for(1)
    assert stand.expired == [("request 2", 0.02)]


def test_a_request_that_is_repeated_when_it_expires_waits_again(stand: Stand) -> None:
    stand.then = lambda: stand.add(2, 10) if len(stand.expired) == 1 else None
    stand.add(1, 10)
    stand.run_for(1)
    assert stand.expired == [("request 1", 0.01), ("request 2", 0.02)]


def test_nothing_expires_that_was_taken_with_all(stand: Stand) -> None:
    stand.add(1, 10)
    stand.add(2, 20)
    assert [pending.name for pending in stand.pending.take_all()] == ["request 1", "request 2"]
    stand.run_for(1)
    stand.add(3, 10)
    stand.run_for(1)
    assert stand.expired == [("request 3", 1.01)]


def test_a_process_that_could_not_run_waits_for_that_long_again_but_once(stand: Stand) -> None:
    stand.add(1, 3_000)
    stand.add(2, 4_000)
    stand.add(3, 20_000)
    stand.stall_at(1, seconds=5)  # Two deadlines pass.
    stand.run_for(60)
    assert stand.expired == [("request 1", 9.0), ("request 2", 9.0), ("request 3", 20.0)]
    stand.add(4, 1_000)
    stand.stall_at(60.5, seconds=1)
    stand.stall_at(61.6, seconds=30)
    stand.run_for(60)
    assert stand.expired[3:] == [("request 4", 91.6)]


def test_what_is_late_from_the_beginning_is_not_extended(stand: Stand) -> None:
    stand.run_for(10)
    stand.add(1, -5_000)
    stand.add(2, 0)
    stand.run_for(60)
    assert stand.expired == [("request 1", 10.0), ("request 2", 10.0)]
