"""The messages of one queue between their pull and the end of their consumption. RocketMQ: ProcessQueue. Pure.

The offset to commit is the smallest one that is still held. If nothing is held, it is the offset after the last pulled
message. So a slow message holds the offset back, and no message is skipped, in whatever order they finish.

A dict holds the messages, and a deque holds their offsets. Offsets arrive in order, so the smallest held offset is
found by removing offsets from the left of the deque that are no longer in the dict.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from staticfire.protocol.messages import ReceivedMessage

NOTHING_HELD = -1


class ProcessQueue:
    """The messages that are held of one queue."""

    __slots__ = ("_held", "_order", "bytes", "next_offset")

    def __init__(self, next_offset: int = 0) -> None:
        self.bytes = 0
        """The total size of the held bodies."""
        self.next_offset = next_offset
        """Everything below this offset was pulled: it is held, done, or was filtered out."""
        self._held: dict[int, ReceivedMessage] = {}
        self._order: deque[int] = deque()

    def __len__(self) -> int:
        """The number of held messages."""
        return len(self._held)

    def __contains__(self, message: ReceivedMessage) -> bool:
        return message.record.queue_offset in self._held

    @property
    def span(self) -> int:
        """The distance from the smallest held offset to the largest."""
        order = self._order
        return order[-1] - order[0] if order else 0

    @property
    def smallest_offset(self) -> int | None:
        """The smallest held offset; None if nothing is held."""
        return self._order[0] if self._order else None

    def is_at(self, offset: int) -> bool:
        """Whether the next message is that at `offset`, and nothing before it is held.

        A broker reports a reset also to a member that has begun after it, at the right offset. Then there is nothing to
        correct, and the next pull ends the reset.
        """
        return offset == self.next_offset and not self._held

    def corrected(self, next_offset: int) -> int:
        """Return the offset to continue at, when a broker has returned `next_offset` for an illegal one.

        If the queue became shorter in a crash, unfinished messages may lie before its new end: continue at the first of
        them. RocketMQ's consumers continue at `next_offset` and skip these.
        """
        first = self.smallest_offset
        return next_offset if first is None or next_offset >= self.next_offset else min(next_offset, first)

    def messages(self) -> Iterable[ReceivedMessage]:
        """Return the held messages, in no particular order."""
        return self._held.values()

    def first(self, count: int) -> list[ReceivedMessage]:
        """Return the `count` held messages with the smallest offsets, in order."""
        return [self._held[offset] for offset in islice(filter(self._held.__contains__, self._order), count)]

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int | None = None) -> list[ReceivedMessage]:
        """Add pulled messages, and return those that weren't held already.

        `next_offset`: where the next pull starts. Offsets below it that aren't held are done, or were filtered out.
        """
        offsets = [message.record.queue_offset for message in messages]
        if not offsets:
            new = []
        elif self._order and offsets[0] <= self._order[-1]:
            new = self._put_among(messages)
        else:
            new = list(messages)
            self._held.update(zip(offsets, messages, strict=True))
            self._order.extend(offsets)
        if offsets:
            self.next_offset = max(self.next_offset, offsets[-1] + 1)
            self.bytes += sum([len(message.body) for message in new])
        if next_offset is not None:
            self.advance(next_offset)
        return new

    def _put_among(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Add messages whose offsets aren't all after the held ones: a pull went back. Held messages are kept."""
        new = [message for message in messages if message not in self]
        self._held.update((message.record.queue_offset, message) for message in new)
        self._order = deque(sorted(self._held))
        return new

    def advance(self, next_offset: int) -> None:
        """Note that a pull reached `next_offset`: the offsets below it that aren't held were filtered out."""
        if next_offset > self.next_offset:
            self.next_offset = next_offset

    def remove(self, messages: Sequence[ReceivedMessage]) -> int:
        """Remove messages that are done. Return the offset to commit, -1 if nothing was held."""
        held = self._held
        if not held:
            return NOTHING_HELD
        gone = [held.pop(message.record.queue_offset, None) for message in messages]
        order = self._order
        if not held:
            order.clear()
            self.bytes = 0
            return self.next_offset
        self.bytes -= sum([len(message.body) for message in gone if message is not None])
        while order[0] not in held:
            order.popleft()
        return order[0]

    def clear(self) -> None:
        """Forget all held messages."""
        self._held.clear()
        self._order.clear()
        self.bytes = 0
