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
