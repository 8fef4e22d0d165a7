"""Pulls that found nothing and wait for a message. RocketMQ: PullRequestHoldService.

A held pull ends exactly once: woken by an arrival, expired at its deadline, or dropped because its connection is
closed. The class does no I/O: `PullHandlers` in `handlers/pull.py` wakes pulls (`arrived`, after each burst, and
`expire`) and answers them. 10,000 held pulls take 10 MB, and no time while they wait: none has a task or a timer.
"""

from collections.abc import Container, Iterator

import msgspec

from staticfire.protocol.times import UptimeMs
from staticfire.runtime.dispatcher import Call


class HeldPull(msgspec.Struct, gc=False):
    """A pull that waits. `offset` moves on when the pull skips messages that it doesn't want."""

    call: Call
    topic: str
    queue_id: int
    offset: int
    deadline_ms: UptimeMs


class HeldPulls:
    """Held pulls by topic and queue."""

    def __init__(self, pulls_max: int) -> None:
        self._pulls_max = pulls_max
        self._by_queue: dict[tuple[str, int], list[HeldPull]] = {}
        self.count = 0
        """How many are held."""
        self.next_deadline_ms: UptimeMs | None = None
        """The first deadline of the pulls that the last `expire` has left."""

    def __iter__(self) -> Iterator[HeldPull]:
        for waiting in self._by_queue.values():
            yield from waiting

    def hold(self, pull: HeldPull) -> bool:
        """Hold a pull; return False if there are too many already."""
        if self.count >= self._pulls_max:
            return False
        key = (pull.topic, pull.queue_id)
        waiting = self._by_queue.get(key)
        if waiting is None:
            self._by_queue[key] = [pull]
        else:
            waiting.append(pull)
        self.count += 1
        return True

    def take(self, topic: str, queue_id: int) -> list[HeldPull]:
        """Remove and return the pulls of a queue, oldest first. The caller holds those again that it doesn't answer."""
        waiting = self._by_queue.pop((topic, queue_id), None)
        if waiting is None:
            return []
        self.count -= len(waiting)
        return waiting

    def take_group(self, group: str, topic: str, queue_id: int) -> list[HeldPull]:
        """Remove and return the pulls of a group in a queue, oldest first."""
        taken = []
        for pull in self.take(topic, queue_id):
            if pull.call.request.consumer_group == group:
                taken.append(pull)
            else:
                self.hold(pull)
        return taken

    def of_topics(self, topics: Container[str]) -> Iterator[HeldPull]:
        """Yield the pulls of some topics, without removing them."""
        for (topic, _), waiting in self._by_queue.items():
            if topic in topics:
                yield from waiting

    def expire(self, uptime_ms: UptimeMs) -> list[HeldPull]:
        """Remove and return the pulls whose deadline has passed; drop those whose connection is closed."""
        expired: list[HeldPull] = []
        self.next_deadline_ms = None
        for key, waiting in list(self._by_queue.items()):
            kept = []
            for pull in waiting:
                if not pull.call.connection.is_open:
                    continue
                if pull.deadline_ms <= uptime_ms:
                    expired.append(pull)
                    continue
                kept.append(pull)
                if self.next_deadline_ms is None or pull.deadline_ms < self.next_deadline_ms:
                    self.next_deadline_ms = pull.deadline_ms
            self.count -= len(waiting) - len(kept)
            if kept:
                self._by_queue[key] = kept
            else:
                del self._by_queue[key]
        return expired

    def take_topic(self, topic: str) -> list[HeldPull]:
        """Remove and return all pulls of a topic, since the topic or a subscription to it has changed."""
        keys = [key for key in self._by_queue if key[0] == topic]
        return [pull for key in keys for pull in self.take(*key)]

    def take_all(self) -> list[HeldPull]:
        """Remove and return all pulls."""
        keys = list(self._by_queue)
        return [pull for key in keys for pull in self.take(*key)]
