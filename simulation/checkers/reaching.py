"""Every message reaches each group that wants it."""

from collections import defaultdict

from staticfire.protocol.names import DLQ_PREFIX, retry_topic
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
from staticfire.simulation.checkers.losses import RetriesAtRisk, takes_acknowledged
from staticfire.simulation.checkers.rewinds import PassedOffsets, Rewinds
from staticfire.simulation.workload.description import Workload


class ReachesAll(Checker):
    """Every message in a topic at the end was consumed by each group, or is a dead letter.

    A power loss makes offsets available again. Members that had consumed the lost messages may skip the new ones at
    their offsets (rewinds.py). Acknowledged messages that are gone are checked by NothingLost. With ASYNC_FLUSH, the
    retry of a failed message may be lost, too, after its group has moved on.
    """

    promise = "at the end, each group has consumed all messages of its topics, or moved them to its dead letters"
    hears = (CallBegan, CallEnded, FaultBegan, FaultEnded, MessageFound, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload, passed: PassedOffsets | None = None) -> None:
        """`passed`: given if a filter keeps messages from the groups, so it is unknown which one was at an offset."""
        super().__init__(workload)
        self._passed_offsets = passed
        self._rewinds = Rewinds(workload)
        self._was_there: dict[tuple[str, QueuePlace, int], str] = {}
        self._retries: dict[tuple[str, str], set[str]] = {}
        """By group and broker: messages that have failed and wait there for their retry."""
        self._at_risk = RetriesAtRisk(workload)
        self._excused: set[tuple[str, str]] = set()
        self._lost_ends: defaultdict[str, dict[QueuePlace, int]] = defaultdict(dict)
        """By group and queue: the highest offset at which it has consumed what is gone."""
        self._consumed: dict[str, set[str]] = {group: set() for group in self.groups}
        self._calls: dict[int, CallBegan] = {}
        self._found: dict[str, list[MessageFound]] = {}
        self._dead: set[tuple[str, str]] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call, group=group, place=place):
                self._calls[call] = event
                for seen in event.messages:
                    self._was_there[group, place, seen.offset] = seen.name
            case CallEnded(call=call, is_success=is_success):
                began = self._calls.pop(call, None)
                if began is not None:
                    self._ended(began, is_success)
            case FaultBegan() | FaultEnded():
                self._at_risk.see(event)
            case ProcessBegan() | ProcessEnded():
                self._rewinds.see(event)
                if isinstance(event, ProcessEnded):
                    self._process_ended(event)
            case MessageFound(name=name, place=(_, topic, _)):
                self._found.setdefault(topic, []).append(event)
                if topic.startswith(DLQ_PREFIX):
                    self._dead.add((topic.removeprefix(DLQ_PREFIX), name))
            case _:
                pass

    def _process_ended(self, ended: ProcessEnded) -> None:
        self._excused |= self._at_risk.taken_by(ended)
        if takes_acknowledged(ended, self.workload.brokers):
            for group in self.groups:
                self._excused |= {(group, name) for name in self._retries.get((group, ended.who), ())}

    def _ended(self, began: CallBegan, is_success: bool) -> None:
        at, consumed = (began.group, began.place[0]), self._consumed[began.group]
        for seen in began.messages:
            if is_success:
                consumed.add(seen.name)
                if at in self._retries:
                    self._retries[at].discard(seen.name)
            else:
                self._retries.setdefault(at, set()).add(seen.name)
                self._at_risk.failed(*at, seen.name)

    def _find_lost_ends(self) -> None:
        """Find how far each group has been in messages that are gone, as those of a replaced master that thaws are."""
        there = {(found.place, found.offset): found.name for of in self._found.values() for found in of}
        for (group, place, offset), name in self._was_there.items():
            if there.get((place, offset)) != name:
                ends = self._lost_ends[group]
                ends[place] = max(ends.get(place, 0), offset)

    def finish(self) -> None:
        self._find_lost_ends()
        for group in self.groups.values():
            if group.is_filtering or group.broadcasts:  # FiltersKept and ReachesEach check these.
                continue
            for topic in group.topics:
                for found in self._found.get(topic, []):
                    self._check(group.name, found)

    def _check(self, group: str, found: MessageFound) -> None:
        was_there = self._was_there.get((group, found.place, found.offset), found.name)
        is_other = was_there != found.name
        if self._passed_offsets is not None:
            is_other = is_other or self._passed_offsets.may_include(found)
            is_other = is_other or found.offset < self._lost_ends[group].get(found.place, 0)
        is_passed_over = is_other and self._rewinds.have_been(group, found.place)
        if is_passed_over or (group, found.name) in self._excused or self._is_retry_passed_over(group, found.name):
            return
        if found.name not in self._consumed[group] and (group, found.name) not in self._dead:
            words = f"{found.name} is at offset {found.offset} of {found.place}"
            self.broken(found.at_ms, f"{words}, and {group} has neither consumed it nor moved it to its dead letters")

    def _is_retry_passed_over(self, group: str, name: str) -> bool:
        """Return whether the retry of a message has the offset of one that was consumed and is lost."""
        return any(
            found.name == name
            and self._was_there.get((group, found.place, found.offset), name) != name
            and self._rewinds.have_been(group, found.place)
            for found in self._found.get(retry_topic(group), [])
        )
