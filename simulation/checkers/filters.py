"""Groups that get some of a topic's messages: by tags, or by a condition over properties."""

from dataclasses import replace

from staticfire.protocol.names import is_dead_letter_topic
from staticfire.protocol.tags import ALL_TAGS
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    MasterSeen,
    MessageFound,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.reaching import ReachesAll
from staticfire.simulation.checkers.rewinds import PassedOffsets
from staticfire.simulation.workload.description import Group, Workload


def is_wanted(group: Group, sent: SendBegan) -> bool:
    """Return whether a group wants a message, using only what its producer wrote into it."""
    if group.condition is not None:
        return group.condition.holds(dict(sent.properties)) is True
    return group.expression == ALL_TAGS or sent.tag in [tag.strip() for tag in group.expression.split("||")]


class OwnTopicsOnly(Checker):
    """A group gets only messages of the topics that it subscribes to, in its namespace."""

    promise = "a group gets only messages of its own topics and its own namespace"
    hears = (SendBegan, CallBegan)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._topics: dict[str, str] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case SendBegan(name=name, topic=topic):
                self._topics[name] = topic
            case CallBegan(at_ms=at_ms, group=group, member=member, messages=messages):
                for seen in messages:
                    topic = self._topics.get(seen.name, "")
                    if topic and topic not in self.groups[group].topics:
                        self.broken(at_ms, f"{member} got {seen.name}, which was sent to {topic}")
            case _:
                pass


class FiltersKept(Checker):
    """A group with tags or a condition gets exactly the messages that match.

    Whether a message matches is evaluated here, from what was sent; no code of the brokers' evaluation is used. A
    matching message that isn't consumed has the same excuses as in a group without a filter (`ReachesAll`).
    """

    promise = "a group gets every message that matches its tags or its condition, and no other"
    hears = (
        SendBegan, SendAcknowledged, CallBegan, CallEnded, OffsetSeen, MasterSeen, MessageFound, ProcessBegan,
        ProcessEnded,
    )  # fmt: skip

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._sent: dict[str, SendBegan] = {}
        self._groups_of_calls: dict[int, str] = {}
        self._passed = PassedOffsets()
        self._reaching: dict[str, ReachesAll] = {
            group.name: ReachesAll(
                replace(workload, groups=[replace(group, expression=ALL_TAGS, condition=None)]), self._passed
            )
            for group in workload.groups
            if group.is_filtering
        }

    def see(self, event: RunEvent) -> None:
        if not self._reaching:
            return
        self._passed.see(event)
        match event:
            case SendBegan(name=name):
                self._sent[name] = event
            case CallBegan(call=call, group=group) if group in self._reaching:
                self._groups_of_calls[call] = group
                self._reaching[group].see(event)
                self._check(event)
            case CallEnded(call=call):
                if call in self._groups_of_calls:
                    self._reaching[self._groups_of_calls.pop(call)].see(event)
            case MessageFound():
                self._found(event)
            case ProcessBegan() | ProcessEnded():
                for reaching in self._reaching.values():
                    reaching.see(event)
            case _:
                pass

    def _check(self, call: CallBegan) -> None:
        group = self.groups[call.group]
        for seen in call.messages:
            sent = self._sent.get(seen.name)
            if sent is not None and not is_wanted(group, sent):
                self.broken(call.at_ms, f"{call.member} got {_described(sent)}, which {group.wants} doesn't match")

    def _found(self, found: MessageFound) -> None:
        sent = self._sent.get(found.name)
        for name, reaching in self._reaching.items():
            is_dead = is_dead_letter_topic(found.place[1])
            if is_dead or (sent is not None and is_wanted(self.groups[name], sent)):
                reaching.see(found)

    def finish(self) -> None:
        for name, reaching in self._reaching.items():
            reaching.finish()
            for violation in reaching.violations:
                self.broken(violation.at_ms, f"{violation.words}, although {self.groups[name].wants} matches it")


def _described(sent: SendBegan) -> str:
    properties = ", ".join(f"{name}={value}" for name, value in sent.properties)
    return f"{sent.name} (tag {sent.tag!r}, {properties or 'no properties'})"
