"""The messages of one queue that is consumed in order. RocketMQ: ProcessQueue, its half for orderly consumption.

Messages are taken in the order of their offsets, and stay taken until they are committed or put back to their place.
Each is either waiting or taken, and what may be committed never passes one that waits. A queue is consumed only while
its lock is sure: `locked_until_ms` lies in the future. Pure.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.consume_results import Messages
from staticfire.client.consume.process_queue import NOTHING_HELD, ProcessQueue
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs

NOT_LOCKED = -math.inf


class OrderedQueue(ProcessQueue):
    """One queue that this client works on in order, until it is dropped."""

    __slots__ = ("_taken", "_waiting", "idle", "is_at_work", "is_given_away", "is_running", "locked_until_ms")

    def __init__(self, queue: MessageQueue, uptime_ms: UptimeMs) -> None:
        super().__init__(queue, uptime_ms)
        self.locked_until_ms = math.inf
        """Until when nobody else has it. Broadcasting needs no locks, so there it is for ever."""
        self.is_at_work = False
        """Somebody consumes it, is about to, or will after a pause."""
        self.is_running = False
        """Its listener runs, or what it said is being carried out."""
        self.is_given_away = False
        """Dropped, but still locked: the call that runs counts, and the next owner begins behind it."""
        self.idle: Callable[[], None] | None = None
        """Called once when it runs no more."""
        self._waiting: deque[ReceivedMessage] = deque()
        self._taken: list[ReceivedMessage] = []

    @property
    def span(self) -> int:
        """No measure of a stuck message here: there is none that others could pass."""
        return 0

    @property
    def waiting(self) -> int:
        """How many messages can be taken."""
        return len(self._waiting)

    @property
    def position(self) -> int:
        """The offset of the first message that isn't committed."""
        return self.next_offset if self.smallest_offset is None else self.smallest_offset

    def may_pull(self, uptime_ms: UptimeMs) -> bool:
        return uptime_ms < self.locked_until_ms

    def may_consume(self, uptime_ms: UptimeMs) -> bool:
        """Whether the next message may go to the listener. Threads ask, too."""
        return not self.dropped and uptime_ms < self.locked_until_ms

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int | None = None) -> list[ReceivedMessage]:
        new = super().put(messages, next_offset)
        self._wait(new)
        return new

    def _wait(self, messages: Iterable[ReceivedMessage]) -> None:
        waiting = self._waiting
        last = waiting[-1].queue_offset if waiting else NOTHING_HELD
        before = len(waiting)
        waiting.extend(messages)
        if before and len(waiting) > before and waiting[before].queue_offset < last:
            self._waiting = deque(sorted(waiting, key=_offset))

    def take(self, count: int) -> Messages:
        """Take up to `count` messages, the next ones in order."""
        waiting = self._waiting
        if count == 1 and waiting:
            message = waiting.popleft()
            self._taken.append(message)
            return (message,)
        taken = tuple([waiting.popleft() for _ in range(min(count, len(waiting)))])
        self._taken += taken
        return taken

    def commit(self, last: ReceivedMessage | None = None) -> int:
        """Let go of what is taken, as far as `last` if that is told; return the offset to commit, -1 for none."""
        taken, self._taken = self._taken, []
        if last is not None and taken and taken[-1] is not last:
            end = next((at for at, message in enumerate(taken, 1) if message is last), len(taken))
            taken, self._taken = taken[:end], taken[end:]
        return self.remove(taken) if taken else NOTHING_HELD

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Let messages that are taken wait again, in their place."""
        back = {message.queue_offset for message in messages}
        self._taken = [message for message in self._taken if message.queue_offset not in back]
        later, self._waiting = self._waiting, deque(sorted((one for one in messages if one in self), key=_offset))
        self._wait(later)

    def roll_back(self) -> None:
        """Let all that is taken wait again."""
        self.put_back(self._taken)

    def rest(self) -> None:
        """Note that it runs no more."""
        self.is_running = False
        idle, self.idle = self.idle, None
        if idle is not None:
            idle()

    def clear(self) -> None:
        super().clear()
        self._waiting.clear()
        self._taken.clear()


def _offset(message: ReceivedMessage) -> int:
    return message.queue_offset
