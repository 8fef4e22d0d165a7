"""The messages of one queue between their pull and the end of their consumption. RocketMQ: ProcessQueue.

What may be committed is the smallest offset that is still held; with nothing held, the offset behind everything that
was pulled. So a message that takes long holds the offset back, and none is skipped, whatever order they end in.

A dict holds the messages and a deque their offsets: offsets arrive in order, so the smallest one is found by dropping
from the deque's left what isn't held any more. Pure.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from staticfire.protocol.messages import ReceivedMessage

NOTHING_HELD = -1


class ProcessQueue:
    """What is held of one queue."""

    __slots__ = ("_held", "_order", "bytes", "next_offset")

    def __init__(self, next_offset: int = 0) -> None:
        self.bytes = 0
        """Of the bodies that are held."""
        self.next_offset = next_offset
        """Everything below was pulled: it is held, done, or was never wanted."""
        self._held: dict[int, ReceivedMessage] = {}
        self._order: deque[int] = deque()

    def __len__(self) -> int:
        """How many messages are held."""
        return len(self._held)

    def __contains__(self, message: ReceivedMessage) -> bool:
        return message.record.queue_offset in self._held

    @property
    def span(self) -> int:
        """How far the largest held offset is from the smallest."""
        order = self._order
        return order[-1] - order[0] if order else 0

    @property
    def smallest_offset(self) -> int | None:
        """The smallest offset that is held."""
        return self._order[0] if self._order else None

    def corrected(self, next_offset: int) -> int:
        """Return where to go on when a broker says that its queue goes on there.

        One that a crash has made shorter still has what was pulled before its new end and isn't done. RocketMQ's
        consumers go on behind that.
        """
        first = self.smallest_offset
        return next_offset if first is None or next_offset >= self.next_offset else min(next_offset, first)

    def messages(self) -> Iterable[ReceivedMessage]:
        """Return what is held, in no order."""
        return self._held.values()

    def first(self, count: int) -> list[ReceivedMessage]:
        """Return what is held with the smallest offsets, in their order."""
        return [self._held[offset] for offset in islice(filter(self._held.__contains__, self._order), count)]

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int | None = None) -> list[ReceivedMessage]:
        """Take in pulled messages and return those that are new here.

        `next_offset`: where the next pull starts; offsets below it that aren't held are dealt with, too.
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
        """Take in messages that don't lie behind those that are held: a pull went back. What is held stays."""
        new = [message for message in messages if message not in self]
        self._held.update((message.record.queue_offset, message) for message in new)
        self._order = deque(sorted(self._held))
        return new

    def advance(self, next_offset: int) -> None:
        """Note that a pull got to `next_offset`: what lies below and isn't held was not wanted."""
        if next_offset > self.next_offset:
            self.next_offset = next_offset

    def remove(self, messages: Sequence[ReceivedMessage]) -> int:
        """Let go of messages that are done; return the offset to commit, -1 when nothing was held."""
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
        """Forget everything that is held."""
        self._held.clear()
        self._order.clear()
        self.bytes = 0
