"""Which half messages are open, and when each is to be asked about. Pure.

A half message is first asked about when it is `transactionTimeOut` old (or older, if it asks for more), then every
`transactionCheckInterval`. RocketMQ looks at all of them every interval: there the first question comes up to one
interval later. Each has one place in the heap of due times; one that has been ended leaves it when its time comes.
"""

from heapq import heappop, heappush

import msgspec

from staticfire.protocol.times import MessageMs


class OpenHalf(msgspec.Struct, gc=False):
    """One half message."""

    log_position: int
    group: str
    """Whose producers are asked."""
    due_ms: int
    checks: int = 0


class SavedHalves(msgspec.Struct, rename="camel", gc=False):
    """What a start needs: the open ones of before `half_end` and `op_end`, and from where on to read."""

    half_end: int = 0
    op_end: int = 0
    checks: dict[str, int] = {}
    """By queue offset, as JSON has it: how often each open one was asked about."""


class OpenHalves:
    """The open half messages of one broker, by queue offset."""

    def __init__(self) -> None:
        self.halves: dict[int, OpenHalf] = {}
        self._due: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.halves)

    def begin(self, offset: int, half: OpenHalf) -> None:
        """Take in a half message."""
        self.halves[offset] = half
        heappush(self._due, (half.due_ms, offset))

    def end(self, offset: int) -> bool:
        """Forget one that was ended; return whether it was open."""
        return self.halves.pop(offset, None) is not None

    def postpone(self, offset: int, due_ms: MessageMs) -> None:
        """Ask about one again at that time."""
        half = self.halves.get(offset)
        if half is not None:
            half.due_ms = due_ms
            heappush(self._due, (due_ms, offset))

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next one is to be asked about."""
        self._skip_ended()
        return MessageMs(self._due[0][0]) if self._due else None

    def take_due(self, message_ms: MessageMs, count_max: int) -> list[int]:
        """Return who is to be asked about by now, in that order; each is to be postponed or ended then."""
        due: list[int] = []
        while len(due) < count_max:
            self._skip_ended()
            if not self._due or self._due[0][0] > message_ms:
                break
            due.append(heappop(self._due)[1])
        return due

    def _skip_ended(self) -> None:
        while self._due:
            due_ms, offset = self._due[0]
            half = self.halves.get(offset)
            if half is not None and half.due_ms == due_ms:
                return
            heappop(self._due)

    def forget(self) -> None:
        """Start anew."""
        self.halves.clear()
        self._due.clear()

    def saved(self, half_end: int, op_end: int) -> SavedHalves:
        """Return what to keep."""
        checks = {str(offset): half.checks for offset, half in self.halves.items() if offset < half_end}
        return SavedHalves(half_end, op_end, checks)
