"""What somebody could get wrong about popped messages."""

from collections.abc import Callable, Iterable

import pytest

from staticfire.broker.pop.in_flight import CheckPoint, InFlight, PoppedQueue
from staticfire.broker.pop.recovery import PopRecovery
from staticfire.broker.pop.returning import Returner
from staticfire.client.consume.popping.pop_returns import PopReturns
from staticfire.client.pop.acknowledging import Acknowledging
from staticfire.client.pop.popped import PoppedMessage

Patch = pytest.MonkeyPatch
EARLY_MS = 1_500
# More than a listener of the swarm takes.


def _first_acknowledgement_forgotten(patch: Patch) -> None:
    whole = Acknowledging.ack_all

    async def ack_all(self: Acknowledging, messages: Iterable[PoppedMessage]) -> None:
        await whole(self, [message for message in messages if message.queue_offset % 2])

    patch.setattr(Acknowledging, "ack_all", ack_all)


def _come_early(patch: Patch) -> None:
    whole_next, whole_take = InFlight.next_due_ms, InFlight.take_due

    def next_due_ms(self: InFlight) -> int | None:
        due_ms = whole_next(self)
        return None if due_ms is None else due_ms - EARLY_MS

    def take_due(self: InFlight, message_ms: int) -> tuple[PoppedQueue, CheckPoint] | None:
        return whole_take(self, message_ms + EARLY_MS)

    patch.setattr(InFlight, "next_due_ms", next_due_ms)
    patch.setattr(InFlight, "take_due", take_due)


async def _only_acknowledged(self: PopReturns, message: PoppedMessage, *_: object) -> None:
    await self._acknowledging.ack(message)


POP_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "half of what was popped isn't acknowledged": _first_acknowledgement_forgotten,
    "popped messages come again early": _come_early,
    "popped messages never come again": lambda patch: patch.setattr(Returner, "_copy", lambda *_: {}),
    "a start forgets what was popped": lambda patch: patch.setattr(PopRecovery, "restore", lambda *_: None),
    "a popped message that has failed is acknowledged": lambda patch: patch.setattr(
        PopReturns, "give_back", _only_acknowledged
    ),
    "a popped message that failed too often vanishes": lambda patch: patch.setattr(
        PopReturns, "_buried", _only_acknowledged
    ),
}
