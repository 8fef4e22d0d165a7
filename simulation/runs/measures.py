"""Numbers that describe a run from the view of its producers and consumers, computed from its events. Pure.

A queue is *idle* while it has a message with which no listener of the group was called yet, and no listener is running
for the queue: the queue has no owner, or the owner is gone or can't be reached. A *take-over* occurs when the calls for
a queue come from another member than before. It lasted as long as the first new message that the new owner got had
waited.
"""

from collections import defaultdict
from math import ceil

import msgspec

from staticfire.protocol.names import RETRY_PREFIX
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    SendFailed,
)

GroupQueue = tuple[str, QueuePlace]


class RunMeasures(msgspec.Struct, frozen=True):
    """The numbers of one run. Times are in virtual milliseconds; None if nothing was measured."""

    sent: int
    send_failures: int
    handled: int
    """Messages that a group has consumed, counted once per group."""
    duplicates: int
    """How often a message was consumed again."""
    failed_calls: int
    latency_p50_ms: int | None
    """From acknowledged to consumed, for messages without a delay or a transaction."""
    latency_p99_ms: int | None
    latency_max_ms: int | None
    take_overs: int
    take_over_p50_ms: int | None
    take_over_max_ms: int | None
    idle_ms: int
    """The sum over all queues of all groups."""
    overlap_ms: int
    """How long two members of a group were called for the same queue at the same time, over all queues."""


class RunMeter:
    """Gets the events of a run in order, and measures."""

    def __init__(self, topics_of: dict[str, tuple[str, ...]]) -> None:
        """`topics_of`: the topics of each group."""
        self._groups_of: dict[str, list[str]] = defaultdict(list)
        for group, topics in topics_of.items():
            for topic in topics:
                self._groups_of[topic].append(group)
        self._sent = self._send_failures = self._failed_calls = self._duplicates = 0
        self._elsewhere: set[str] = set()
        """Messages whose acknowledged place isn't their final one: delayed ones, and half messages."""
        self._stored: dict[str, tuple[int, QueuePlace]] = {}
        self._called: set[tuple[str, str]] = set()
        self._handled: dict[tuple[str, str], int] = {}
        self._calls: dict[int, CallBegan] = {}
        self._latencies_ms: list[int] = []
        self._take_overs_ms: list[int] = []
        self._take_overs = 0
        self._queues: dict[GroupQueue, _QueueTimes] = {}

    def see(self, event: RunEvent) -> None:
        """Process an event."""
        match event:
            case SendBegan(name=name, due_ms=due_ms, is_half=is_half):
                self._sent += 1
                if due_ms or is_half:
                    self._elsewhere.add(name)
            case SendFailed():
                self._send_failures += 1
            case SendAcknowledged(name=name) if name not in self._elsewhere:
                self._acknowledged(event)
            case CallBegan():
                self._began(event)
            case CallEnded():
                self._ended(event)
            case ProcessEnded(at_ms=at_ms, who=who):
                self._gone(at_ms, who)
            case _:
                pass

    def _queue(self, group: str, place: QueuePlace) -> "_QueueTimes":
        return self._queues.setdefault((group, place), _QueueTimes())

    def _acknowledged(self, event: SendAcknowledged) -> None:
        self._stored[event.name] = (event.at_ms, event.place)
        for group in self._groups_of.get(event.place[1], ()):
            if (group, event.name) not in self._called:
                self._queue(group, event.place).waits(event.name, event.at_ms)

    def _began(self, event: CallBegan) -> None:
        self._calls[event.call] = event
        if event.place[1].startswith(RETRY_PREFIX):
            return
        queue = self._queue(event.group, event.place)
        if queue.owner and queue.owner != event.member:
            self._take_overs += 1
            queue.is_taken = True
        queue.owner = event.member
        for seen in event.messages:
            key = (event.group, seen.name)
            if key in self._called:
                continue
            self._called.add(key)
            stored = self._stored.get(seen.name)
            if queue.is_taken and stored is not None:
                queue.is_taken = False
                self._take_overs_ms.append(max(0, event.at_ms - stored[0]))
        queue.began(event.at_ms, event.member, [seen.name for seen in event.messages])

    def _ended(self, event: CallEnded) -> None:
        began = self._calls.pop(event.call, None)
        if began is None:
            return
        if not began.place[1].startswith(RETRY_PREFIX):
            self._queue(began.group, began.place).ended(event.at_ms, began.member)
        if not event.is_success:
            self._failed_calls += 1
            return
        for seen in began.messages:
            key = (began.group, seen.name)
            if key in self._handled:
                self._duplicates += 1
                continue
            self._handled[key] = event.at_ms
            stored = self._stored.get(seen.name)
            if stored is not None and seen.reconsume_times == 0:
                self._latencies_ms.append(max(0, event.at_ms - stored[0]))

    def _gone(self, at_ms: int, member: str) -> None:
        """Remove the calls of a process that has ended: no event reports their end."""
        self._calls = {number: call for number, call in self._calls.items() if call.member != member}
        for queue in self._queues.values():
            queue.gone(at_ms, member)

    def measures(self, end_ms: int) -> RunMeasures:
        """Return the numbers, up to the end of the run."""
        latencies, take_overs = sorted(self._latencies_ms), sorted(self._take_overs_ms)
        for queue in self._queues.values():
            queue.close(end_ms)
        return RunMeasures(
            sent=self._sent,
            send_failures=self._send_failures,
            handled=len(self._handled),
            duplicates=self._duplicates,
            failed_calls=self._failed_calls,
            latency_p50_ms=part_of(latencies, 0.5),
            latency_p99_ms=part_of(latencies, 0.99),
            latency_max_ms=part_of(latencies, 1),
            take_overs=self._take_overs,
            take_over_p50_ms=part_of(take_overs, 0.5),
            take_over_max_ms=part_of(take_overs, 1),
            idle_ms=sum(queue.idle_ms for queue in self._queues.values()),
            overlap_ms=sum(queue.overlap_ms for queue in self._queues.values()),
        )


def part_of(ordered: list[int], part: float) -> int | None:
    """Return the smallest of the ordered numbers that at least this share of them doesn't exceed."""
    return ordered[max(0, ceil(len(ordered) * part) - 1)] if ordered else None


class _QueueTimes:
    """One queue of one group: how long it was idle, and how long two members worked on it."""

    def __init__(self) -> None:
        self.owner = ""
        self.is_taken = False
        self.idle_ms = self.overlap_ms = 0
        self._waiting: set[str] = set()
        self._running: dict[str, int] = {}
        self._since_ms = 0

    def _until(self, at_ms: int) -> None:
        passed_ms, self._since_ms = at_ms - self._since_ms, at_ms
        if self._waiting and not self._running:
            self.idle_ms += passed_ms
        if len(self._running) > 1:
            self.overlap_ms += passed_ms

    def waits(self, name: str, at_ms: int) -> None:
        self._until(at_ms)
        self._waiting.add(name)

    def began(self, at_ms: int, member: str, names: list[str]) -> None:
        self._until(at_ms)
        self._waiting.difference_update(names)
        self._running[member] = self._running.get(member, 0) + 1

    def ended(self, at_ms: int, member: str) -> None:
        self._until(at_ms)
        count = self._running.get(member, 0) - 1
        if count > 0:
            self._running[member] = count
        else:
            self._running.pop(member, None)

    def gone(self, at_ms: int, member: str) -> None:
        if member in self._running:
            self._until(at_ms)
            del self._running[member]

    def close(self, end_ms: int) -> None:
        self._until(max(end_ms, self._since_ms))
