"""The kinds of faults, and how a fault of each kind is drawn. Pure.

Each is something that a correct RocketMQ may do to a correct client. `KINDS` has the mildest weather of each kind.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from staticfire.chaos.planned_fault import CLIENT, CLIENT_PLACE, MEMBER, Begin, PlannedFault, rule
from staticfire.chaos.usage import GroupUsage, Usage

MILD, ROUGH, HELL = "mild", "rough", "hell"
WEATHERS = (MILD, ROUGH, HELL)
POSITION_PERCENT_MAX = 70
STATUSES = ("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
"""The statuses of a message that is stored, but not as safely as the broker is configured to store it."""


@dataclass(frozen=True)
class Draw:
    """Draws the parts of a fault: from a random source, and from what the program uses."""

    random: Random
    usage: Usage

    def topic(self, without_half: bool = False) -> tuple[str, int] | None:
        """Draw a topic that the program sends to, and the number of send requests that pass first."""
        half = self.usage.half_topics if without_half else set()
        topics = sorted(topic for topic in self.usage.sends if topic not in half)
        if not topics:
            return None
        topic = self.random.choice(topics)
        return topic, self.random.randrange(self.usage.sends[topic])

    def one_broker(self) -> str | None:
        """Draw the broker of a fault that must hit at one broker only; None if there is only one broker."""
        return self.random.choice(self.usage.brokers) if len(self.usage.brokers) > 1 else None

    def group(self, fits: Callable[[GroupUsage], object]) -> tuple[str, GroupUsage] | None:
        """Draw a group for which `fits` returns a true value; None if there is none."""
        names = sorted(name for name, group in self.usage.groups.items() if fits(group))
        if not names:
            return None
        name = self.random.choice(names)
        return name, self.usage.groups[name]

    def position(self, count: int) -> int:
        """Draw how many requests or deliveries pass first.

        Their number differs from run to run, so the last ones of the calm run are left out.
        """
        return self.random.randrange(max(1, count * POSITION_PERCENT_MAX // 100))

    def begin(self) -> Begin | None:
        """Draw when a fault of a whole server begins."""
        found = self.group(lambda group: group.deliveries)
        if found is not None:
            return Begin(self.position(found[1].deliveries), group=found[0])
        topic = self.topic()
        return None if topic is None else Begin(topic[1], topic=topic[0])

    def ms(self, least: int, most: int) -> int:
        return self.random.randrange(least, most + 1, 10)


def _duplicate(draw: Draw) -> PlannedFault | None:
    found = draw.topic(without_half=True)
    if found is None:
        return None
    times = draw.random.randint(1, 2)
    return rule("duplicate", code="SEND_MESSAGE", topic=found[0], duplicate=True, after=found[1] or None, times=times)


def _lost_commit(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.commits)
    if found is None:
        return None
    after = draw.position(found[1].commits)
    return rule(
        "lost-commit", code="UPDATE_CONSUMER_OFFSET", group=found[0], answer="SYSTEM_BUSY", after=after or None,
        times=draw.random.randint(1, 3),
    )  # fmt: skip


def _lost_ack(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.acks)
    if found is None:
        return None
    after = draw.position(found[1].acks)
    return rule("lost-ack", code="ACK_MESSAGE", group=found[0], drop="request", after=after or None, times=1)


def _rebalance(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.is_shared and group.deliveries)
    if found is None:
        return None
    name, group = found
    begin = Begin(draw.position(group.deliveries), group=name)
    return PlannedFault("rebalance", begin=begin, how=MEMBER, group=name, stay_ms=draw.ms(200, 900))


def _handover(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.is_shared and group.deliveries and not group.is_ordered)
    if found is None:
        return None
    name, group = found
    words = (("code", "UPDATE_CONSUMER_OFFSET"), ("group", name), ("answer", "SYSTEM_BUSY"), ("lifetime", "600ms"))
    begin = Begin(draw.position(group.deliveries), group=name)
    return PlannedFault("handover", words, begin, MEMBER, name, draw.ms(200, 500))


def _slow(draw: Draw) -> PlannedFault | None:
    delay = f"{draw.ms(100, 400)}ms"
    times = draw.random.randint(1, 4)
    topic, group = draw.topic(), draw.group(lambda group: group.pulls + group.pops)
    if topic is not None and (group is None or draw.random.random() < 0.5):
        return rule(
            "slow", code="SEND_MESSAGE", topic=topic[0], delay=delay, direction="answer", after=topic[1] or None,
            times=times,
        )  # fmt: skip
    if group is None:
        return None
    code = "PULL_MESSAGE" if group[1].pulls else "POP_MESSAGE"
    after = draw.position(group[1].pulls or group[1].pops)
    return rule("slow", code=code, group=group[0], delay=delay, direction="answer", after=after or None, times=times)


def _busy(draw: Draw) -> PlannedFault | None:
    found = draw.topic()
    if found is None:
        return None
    return rule(
        "busy", code="SEND_MESSAGE", topic=found[0], broker=draw.one_broker(), answer="SYSTEM_BUSY",
        after=found[1] // len(draw.usage.brokers) or None, times=1,
    )  # fmt: skip


def _lost_answer(draw: Draw) -> PlannedFault | None:
    found = draw.topic()
    if found is None:
        return None
    return rule(
        "lost-answer",
        code="SEND_MESSAGE",
        topic=found[0],
        close=True,
        direction="answer",
        broker=draw.one_broker(),
        after=found[1] // len(draw.usage.brokers) or None,
        times=1,
    )


def _reset(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.pulls + group.pops)
    if found is None:
        return None
    code = "PULL_MESSAGE" if found[1].pulls else "POP_MESSAGE"
    after = draw.position(found[1].pulls or found[1].pops)
    return rule("reset", code=code, group=found[0], close=True, after=after or None, times=1)


def _lost_end(draw: Draw) -> PlannedFault | None:
    if not draw.usage.transactions:
        return None
    after = draw.position(draw.usage.transactions)
    return rule("lost-end", code="END_TRANSACTION", drop="request", after=after or None, times=1)


def _refuse(draw: Draw) -> PlannedFault | None:
    found = draw.topic()
    if found is None:
        return None
    # A client tries a send three times; a program must be able to see a send fail.
    times = draw.random.randint(3, 6)
    return rule(
        "refuse", code="SEND_MESSAGE", topic=found[0], answer="SYSTEM_BUSY", after=found[1] or None, times=times
    )


def _status(draw: Draw) -> PlannedFault | None:
    found = draw.topic(without_half=True)
    if found is None:
        return None
    # A producer rolls a transaction back if the status of its half message isn't SEND_OK.
    return rule(
        "status", code="SEND_MESSAGE", topic=found[0], answer=draw.random.choice(STATUSES), direction="answer",
        after=found[1] // len(draw.usage.brokers) or None, times=draw.random.randint(1, 3),
    )  # fmt: skip


def _of_server(kind: str, draw: Draw, server: str, **words: object) -> PlannedFault | None:
    begin = draw.begin()
    if begin is None:
        return None
    return PlannedFault(kind, (("broker", server), *words.items()), begin)


def _freeze(draw: Draw) -> PlannedFault | None:
    return _of_server("freeze", draw, draw.random.choice(draw.usage.brokers), freeze="20s")


def _restart(draw: Draw) -> PlannedFault | None:
    return _of_server("restart", draw, draw.random.choice(draw.usage.brokers), kill="1s")


def _nameserver(draw: Draw) -> PlannedFault | None:
    return _of_server("nameserver", draw, "nameserver", freeze="5s")


def _partition(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.members and group.deliveries)
    if found is None:
        return None
    broker = draw.random.choice(draw.usage.brokers)
    words = (("partition", f"{CLIENT_PLACE}/{broker}"), ("lifetime", f"{draw.ms(1000, 4000)}ms"))
    begin = Begin(draw.position(found[1].deliveries), group=found[0])
    return PlannedFault("partition", words, begin, CLIENT, found[0])


def _lost_lock(draw: Draw) -> PlannedFault | None:
    found = draw.group(lambda group: group.is_ordered and group.deliveries)
    if found is None:
        return None
    begin = Begin(draw.position(found[1].deliveries), group=found[0])
    words = (("code", "LOCK_BATCH_MQ"), ("group", found[0]), ("drop", "request"), ("lifetime", "1s"))
    return PlannedFault("lost-lock", words, begin, MEMBER, found[0], draw.ms(500, 1500))


def _kill(draw: Draw) -> PlannedFault | None:
    return _of_server("kill", draw, draw.random.choice(draw.usage.brokers), kill=f"{draw.random.randint(2, 5)}s")


def _disk_full(draw: Draw) -> PlannedFault | None:
    return _of_server("disk-full", draw, draw.random.choice(draw.usage.brokers), disk_full=True, lifetime="3s")


def _lost_answers(draw: Draw) -> PlannedFault | None:
    if not draw.usage.sends:
        return None
    seed = draw.random.randrange(1000)
    return rule("lost-answers", code="SEND_MESSAGE", drop="answer", probability=0.1, seed=seed)


class FaultKind(NamedTuple):
    """A kind of fault."""

    weather: str
    """The mildest weather that has it."""
    draw: Callable[[Draw], PlannedFault | None]
    """Returns None if the program uses nothing that a fault of this kind can hit."""
    words: str


KINDS = {
    "duplicate": FaultKind(MILD, _duplicate, "a send is stored twice, as after a lost answer and a retry"),
    "lost-commit": FaultKind(MILD, _lost_commit, "offset commits are lost"),
    "lost-ack": FaultKind(MILD, _lost_ack, "an acknowledgement is lost; the message is delivered again"),
    "rebalance": FaultKind(MILD, _rebalance, "another member joins the group and leaves"),
    "handover": FaultKind(MILD, _handover, "queues change hands while listeners run, and their commits are lost"),
    "slow": FaultKind(MILD, _slow, "answers are slow"),
    "busy": FaultKind(MILD, _busy, "one send is refused with SYSTEM_BUSY"),
    "lost-answer": FaultKind(
        MILD, _lost_answer, "the answer to a send is lost with its connection; the message is stored"
    ),
    "reset": FaultKind(MILD, _reset, "a consumer's connection is closed"),
    "lost-end": FaultKind(MILD, _lost_end, "the end of a transaction is lost; the broker checks it later"),
    "refuse": FaultKind(ROUGH, _refuse, "sends are refused with SYSTEM_BUSY for longer than the client retries"),
    "status": FaultKind(ROUGH, _status, "a message is stored, but the status of the send isn't SEND_OK"),
    "restart": FaultKind(ROUGH, _restart, "a broker is restarted"),
    "freeze": FaultKind(ROUGH, _freeze, "a broker is frozen for 20 s"),
    "nameserver": FaultKind(ROUGH, _nameserver, "the nameserver doesn't answer for 5 s"),
    "partition": FaultKind(ROUGH, _partition, "a client and a broker can't reach each other"),
    "lost-lock": FaultKind(ROUGH, _lost_lock, "renewals of locks are lost while the group is rebalanced"),
    "kill": FaultKind(HELL, _kill, "a broker is killed and stays away"),
    "disk-full": FaultKind(HELL, _disk_full, "a broker's disk is full"),
    "lost-answers": FaultKind(HELL, _lost_answers, "one answer to a send in ten is lost"),
}
"""All kinds by name, the mild ones first."""


def kinds_of(weather: str) -> list[str]:
    """Return the kinds that a weather may have."""
    level = WEATHERS.index(weather)
    return [name for name, kind in KINDS.items() if WEATHERS.index(kind.weather) <= level]
