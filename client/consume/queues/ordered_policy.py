"""Decides which message of an ordered queue is next, and which offset may be committed. Pure.
RocketMQ: ProcessQueue, the part for orderly consumption.

Messages are taken in the order of their offsets, and are kept until they are committed or put back in their place. Each
is either waiting or taken. The committed offset never passes a waiting message.

    waiting --take--> taken --commit--> gone
       ^                |
       +---put_back-----+

A queue has one turn at a time. A turn begins with `Deliver` (a worker is to take the next messages) and ends with
`turn_ended`, which decides whether another turn follows, at once or after a pause.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence

from staticfire.client.consume.queues.held_lock import HeldLock
from staticfire.client.consume.queues.instructions import Deliver, Instructions, Wait
from staticfire.client.consume.queues.process_queue import NOTHING_HELD, ProcessQueue
from staticfire.client.consume.results.consume_results import Messages
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs


class OrderedPolicy:
    """The policy of one queue."""

    __slots__ = ("_cache", "_is_at_work", "_resume_ms", "_taken", "_waiting", "is_given_away", "is_running", "lock")

    is_in_order = True

    def __init__(self, cache: ProcessQueue, lock: HeldLock | None) -> None:
        """`lock`: None in broadcasting mode, where no other client competes for the queue."""
        self.lock = lock
        self.is_running = False
        """Whether its listener is running, or the listener's result is being applied."""
        self.is_given_away = False
        """Whether it is dropped, but no other client owns it: the running call counts, and the next owner waits."""
        self._cache = cache
        # Whether a worker consumes the queue, is about to, or will after a pause.
        self._is_at_work = False
        self._resume_ms = math.inf
        self._waiting: deque[ReceivedMessage] = deque()
        self._taken: list[ReceivedMessage] = []

    # -- as any policy -------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether no client may take the queue, not even this one: its listener is running."""
        return self.is_running

    @property
    def due_ms(self) -> float:
        """When the pause that the listener requested is over."""
        return self._resume_ms

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Whether the queue's lock is trusted. Also called from threads."""
        return self.lock is None or self.lock.is_trusted(uptime_ms)

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Whether the broker has kept the lock for this client all the time."""
        return self.lock is None or self.lock.is_sure(uptime_ms)

    def pulled(self, new: list[ReceivedMessage], uptime_ms: UptimeMs) -> Instructions:
        """Add new messages to the waiting ones, in order of their offsets."""
        self._wait(new)
        turn = self.next_turn()
        return [] if turn is None else [turn]

    def revoked(self, uptime_ms: UptimeMs) -> None:
        """Give the queue away. The running call still counts if no other client can own the queue meanwhile."""
        self.is_given_away = self.is_sure(uptime_ms)

    def time(self, uptime_ms: UptimeMs) -> Instructions:
        """Continue after a pause."""
        self._resume_ms = math.inf
        self._is_at_work = False
        turn = self.next_turn()
        return [] if turn is None else [turn]

    def limits_changed(self, uptime_ms: UptimeMs) -> None:
        """Do nothing: messages of an ordered queue have no time limit."""

    def lock_granted(self, requested_ms: UptimeMs) -> None:
        """Trust the lock again."""
        if self.lock is not None:
            self.lock.granted(requested_ms)

    def distrust(self) -> None:
        """Stop until the lock is granted again: its broker may have lost it."""
        if self.lock is not None:
            self.lock.lost()

    def lock_lost(self) -> None:
        """Note that another client owns or owned the queue: results here no longer count."""
        self.is_given_away = False
        self.distrust()

    # -- turns ---------------------------------------------------------------------------------------------------

    def next_turn(self) -> Deliver | None:
        """Start a turn, unless there is one already or no message waits."""
        if self._is_at_work or not self._waiting:
            return None
        self._is_at_work = True
        return Deliver()

    def turn_ended(self, pause_ms: int | None, uptime_ms: UptimeMs, may_go_on: bool) -> Instructions:
        """End the turn. Next: a pause, another turn, or (`may_go_on` is False) nothing until the lock is renewed."""
        self._is_at_work = self.is_running = False
        if pause_ms is not None:
            self._is_at_work = True
            self._resume_ms = resume_ms = UptimeMs(uptime_ms + pause_ms)
            return [Wait(resume_ms)]
        turn = self.next_turn() if may_go_on else None
        return [] if turn is None else [turn]

    # -- messages ------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of messages that can be taken."""
        return len(self._waiting)

    @property
    def position(self) -> int:
        """The offset of the first message that isn't committed."""
        smallest = self._cache.smallest_offset
        return self._cache.next_offset if smallest is None else smallest

    def _wait(self, messages: Iterable[ReceivedMessage]) -> None:
        waiting = self._waiting
        last = waiting[-1].queue_offset if waiting else NOTHING_HELD
        before = len(waiting)
        waiting.extend(messages)
        if before and len(waiting) > before and waiting[before].queue_offset < last:
            self._waiting = deque(sorted(waiting, key=_offset))

    def take(self, count: int) -> Messages:
        """Take up to `count` messages, in order."""
        waiting = self._waiting
        if count == 1 and waiting:
            message = waiting.popleft()
            self._taken.append(message)
            return (message,)
        taken = tuple([waiting.popleft() for _ in range(min(count, len(waiting)))])
        self._taken += taken
        return taken

    def commit(self, last: ReceivedMessage | None = None) -> int:
        """Remove the taken messages, up to `last` if it is given. Return the offset to commit, -1 for none."""
        taken, self._taken = self._taken, []
        if last is not None and taken and taken[-1] is not last:
            end = next((at for at, message in enumerate(taken, 1) if message is last), len(taken))
            taken, self._taken = taken[:end], taken[end:]
        return self._cache.remove(taken) if taken else NOTHING_HELD

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Put taken messages back in their place among the waiting ones."""
        back = {message.queue_offset for message in messages}
        self._taken = [message for message in self._taken if message.queue_offset not in back]
        later = self._waiting
        self._waiting = deque(sorted((message for message in messages if message in self._cache), key=_offset))
        self._wait(later)

    def roll_back(self) -> None:
        """Put all taken messages back."""
        self.put_back(self._taken)


def _offset(message: ReceivedMessage) -> int:
    return message.queue_offset
