"""How often a message is stored in a group's retry topic and dead letters: once for each failure."""

from collections import Counter

from staticfire.protocol.delay_levels import DELAY_LEVELS_DEFAULT, DelayLevels, retry_level
from staticfire.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    MessageFound,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.simulation.checkers.unrest import TroubledTimes, senders_of
from staticfire.simulation.workload.description import Workload

# RocketMQ: a send-back times out after 5 s, and the send to the retry topic that replaces it after 3 s.
GIVEN_BACK_MS = 8_000
# How long a disk may still be slow after the end of the fault, for writes from before.
SLOW_SYNC_MS = 2_500


class CopiedOnce(Checker):
    """Each failure stores one copy of a message: a retry or a dead letter.

    A send-back whose answer is lost is tried again in another way, and who starts may deliver a retry again whose
    delivery was not saved: trouble of the members, brokers or links between a failure and the time of its retry excuses
    a second copy. A send-back names a position of the log: when a crash has taken the message that failed, what has its
    position by then is given back. What a popping member had no time for is copied as well; there each copy is made of
    one that came back once less, and only a run in which nothing was broken meanwhile says how often.
    """

    promise = "each failed message is stored exactly once, as a retry or a dead letter, unless a fault was active"
    hears = (CallBegan, CallEnded, MessageFound, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        text = str(workload.brokers.settings.get("message_delay_level", DELAY_LEVELS_DEFAULT))
        self._levels = DelayLevels.parse(text)
        self._times = TroubledTimes()
        self._calls: dict[int, CallBegan] = {}
        self._first_ms: dict[tuple[str, str], int] = {}
        self._failed: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """When a message failed in a group, and until when trouble may copy its retry."""
        self._failed_at: dict[tuple[str, QueuePlace, int, str], int] = {}
        """How often a message failed in a group that came from this place in its own queue."""
        self._found: set[tuple[QueuePlace, int, str]] = set()
        self._copies: dict[str, Counter[tuple[str, int]]] = {}
        """By topic; the keys are a message and how often it was redelivered."""
        self._producers = frozenset(senders_of(workload))

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(at_ms=at_ms, call=call, group=group):
                self._calls[call] = event
                for seen in event.messages:
                    self._first_ms.setdefault((group, seen.name), at_ms)
            case CallEnded(at_ms=at_ms, call=call, is_success=is_success):
                began = self._calls.pop(call, None)
                if began is not None and not is_success:
                    self._has_failed(began, at_ms)
            case MessageFound(name=name, place=place, offset=offset, reconsume_times=times):
                self._copies.setdefault(place[1], Counter())[name, times] += 1
                self._found.add((place, offset, name))
            case FaultBegan(target=who) | FaultEnded(target=who) | ProcessBegan(who=who) | ProcessEnded(who=who):
                if who not in self._producers:
                    self._times.see(event)
            case _:
                pass

    def _has_failed(self, began: CallBegan, at_ms: int) -> None:
        for seen in began.messages:
            level = self._levels.clamp(retry_level(seen.reconsume_times))
            until_ms = at_ms + GIVEN_BACK_MS + self._levels.delay_ms(level)
            self._failed.setdefault((began.group, seen.name), []).append((at_ms, until_ms))
            where = (began.group, began.place, seen.offset, seen.name)
            self._failed_at[where] = self._failed_at.get(where, 0) + 1

    def finish(self) -> None:
        for group in self.groups.values():
            copies: Counter[tuple[str, int]] = Counter()
            for topic, found in self._copies.items():
                if _is_of(topic, group.name):
                    copies += found
            if group.popped:
                self._check_popped(group.name, group.topics, copies)
            else:
                self._check_pulled(group.name, copies)

    def _lost_failures(self, group: str) -> int:
        """Return how many failures were those of records that a crash has taken."""
        failed = self._failed_at.items()
        return sum(count for (who, *where), count in failed if who == group and tuple(where) not in self._found)

    def _check_pulled(self, group: str, copies: Counter[tuple[str, int]]) -> None:
        lost = self._lost_failures(group)
        total: Counter[str] = Counter()
        for (name, _), count in copies.items():
            total[name] += count
        for name, count in total.items():
            failed = self._failed.get((group, name), [])
            is_excused = any(self._times.during(from_ms - SLOW_SYNC_MS, to_ms) for from_ms, to_ms in failed)
            if count > len(failed) and not is_excused:
                lost -= count - len(failed)
                if lost >= 0:
                    continue
                words = f"{name} failed {len(failed)} times in {group} and is stored {count} times as retry or dead"
                self.broken(failed[-1][0] if failed else 0, f"{words} letters, and nothing was broken")

    def _check_popped(self, group: str, topics: tuple[str, ...], copies: Counter[tuple[str, int]]) -> None:
        for topic in topics:
            copies += self._copies.get(topic, Counter())
        last_ms = max((to_ms for failed in self._failed.values() for _, to_ms in failed), default=0)
        for (name, times), count in copies.items():
            first_ms = self._first_ms.get((group, name), 0)
            if times and count > copies[name, times - 1] and self._times.during(first_ms, last_ms) is None:
                words = f"{name} is stored {count} times among retries and dead letters of {group}, returned"
                self.broken(first_ms, f"{words} {times} times, made of {copies[name, times - 1]}")


def _is_of(topic: str, group: str) -> bool:
    """Return whether a topic has retries or dead letters of a group. POP's retry topics end with a topic's name."""
    if topic == DLQ_PREFIX + group:
        return True
    behind = topic.removeprefix(RETRY_PREFIX + group) if topic.startswith(RETRY_PREFIX + group) else None
    return behind is not None and behind[:1] in ("", "_", "+")
