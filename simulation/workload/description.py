"""The classes of a workload file. Each value is checked when its object is created: UsageError names the problem.

Everything else is random, from the seed: when each message is sent, what listeners return, what breaks, for how long.
"""

# house: a workload file is made of these classes, which check each other

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from staticfire.broker.settings import BrokerSettings
from staticfire.client import ConsumeContext, OrderedContext, ReceivedMessage
from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import group_fault, topic_fault
from staticfire.protocol.tags import ALL_TAGS
from staticfire.runtime.ranges import check_ranges, shown
from staticfire.simulation.workload.conditions import Condition
from staticfire.simulation.workload.kinds import check_kinds
from staticfire.simulation.workload.spelling import check_known
from staticfire.simulation.workload.strikes import STRIKES, USUAL_STRIKES
from staticfire.simulation.world.link import LinkQuality

BROKERS_MAX, CLIENTS_MAX, QUEUES_MAX = 26, 200, 256
REPLICAS_MAX = 4
# slaveSyncPeriod of brokers with slaves, unless the workload sets it: as with `staticfire up --replicas`.
SYNC_PERIOD_MS = 1_000
PER_SECOND_MAX = 1_000.0
SECONDS_MAX = 86_400.0
PUSH, LITE_PULL, SIMPLE = "push", "lite pull", "simple"
BATCH_MAX, RETRIES_MAX, AT_ONCE_MAX = 1_024, 1_000, 1_000

# The part of a name before this sign is the namespace of a topic, group or program; clients get it as a setting.
NAMESPACE_SIGN = "%"

ProgramListener = Callable[[tuple[ReceivedMessage, ...], ConsumeContext | OrderedContext], Awaitable[object]]
"""A listener of push consumers."""


def _require(condition: bool, words: str) -> None:
    if not condition:
        raise UsageError(words)


def namespace_of(name: str) -> str:
    """Return the namespace of a topic, group or program; empty if there is none."""
    return name.partition(NAMESPACE_SIGN)[0] if NAMESPACE_SIGN in name else ""


def _check_share(owner: str, **shares: float) -> None:
    for name, share in shares.items():
        _require(0 <= share <= 1, f"{owner}: {name}={share} is not a share; write a number from 0 to 1")


class Word:
    """The base of all classes of a workload: first the type of each value is checked, then `check` is called."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_kinds(type(self).__name__, self)
        self.check()

    def check(self) -> None:
        """Raises: UsageError (a value isn't possible)."""


@dataclass(frozen=True, slots=True)
class Topic(Word):
    """A topic, which all brokers have."""

    name: str
    queues: int = 4

    def check(self) -> None:
        fault = topic_fault(self.name)
        _require(fault is None, f"topic {self.name!r}: {fault}")
        _require(
            1 <= self.queues <= QUEUES_MAX, f"topic {self.name}: {self.queues} queues; allowed are 1 to {QUEUES_MAX}"
        )


@dataclass(frozen=True, slots=True)
class Transactions(Word):
    """How a producer's transactions end, as shares of its messages. The rest ends when a broker checks it."""

    commit: float = 0.7
    rollback: float = 0.2

    def check(self) -> None:
        _check_share("Transactions", commit=self.commit, rollback=self.rollback)
        _require(self.commit + self.rollback <= 1, "Transactions: the sum of commit and rollback is above 1")


@dataclass(frozen=True, slots=True)
class Producers(Word):
    """Programs that send to a topic. The rate is that of all of them together."""

    topic: str
    per_second: float = 1.0
    clients: int = 1
    name: str = ""
    """The machines are name-1, name-2 ...; if empty, <topic>-producer-1 ..."""
    keys: int = 0
    """The number of different keys: a message goes to its key's queue; 0: to any queue."""
    has_keys: bool = False
    """Whether messages have keys by which they can be found: the name of their program, and their own."""
    delay_level: int = 0
    delay_ms: int = 0
    is_exact: bool = False
    """With delay_ms: the message contains the time of delivery instead of the delay."""
    recalls: float = 0.0
    """With delay_ms: the share of messages that are recalled, before their time or a little after it."""
    asks_ms: int = 0
    """Messages are requests, and a reply is waited for so long; 0: they are not. A group has to reply to the topic."""
    at_once: int = 1
    """So many messages are sent together, in one call."""
    transactions: Transactions | None = None
    body: Callable[[int], bytes] | None = None
    """Returns the body of a producer's n-th message."""
    tags: Sequence[str] = ()
    """Each message has one of them; an empty text means no tag."""
    properties: dict[str, Sequence[str]] = field(default_factory=dict)
    """Each message has one of the values of each property; an empty text means that it doesn't have the property."""

    def check(self) -> None:
        owner = f"Producers({self.topic!r})"
        _require(
            0 < self.per_second <= PER_SECOND_MAX,
            f"{owner}: per_second={self.per_second}; it must be above 0 and at most {PER_SECOND_MAX:.0f}",
        )
        _require(1 <= self.clients <= CLIENTS_MAX, f"{owner}: clients={self.clients}; allowed are 1 to {CLIENTS_MAX}")
        _require(self.keys >= 0, f"{owner}: keys={self.keys}; 0 means any queue")
        _require(0 <= self.delay_level <= 18, f"{owner}: delay_level={self.delay_level}; allowed are 0 (none) to 18")
        _require(self.delay_ms >= 0, f"{owner}: delay_ms={self.delay_ms} is below 0")
        _require(not (self.delay_level and self.delay_ms), f"{owner}: use either delay_level or delay_ms, not both")
        _check_share(owner, recalls=self.recalls)
        _require(
            bool(self.delay_ms) or not (self.recalls or self.is_exact), f"{owner}: recalls and is_exact need delay_ms"
        )
        _require(self.asks_ms >= 0, f"{owner}: asks_ms={self.asks_ms} is below 0")
        is_asking = bool(self.asks_ms)
        _require(
            not (is_asking and (self.delay_ms or self.delay_level or self.transactions)),
            f"{owner}: requests can't have delays or transactions",
        )
        fault = group_fault(self.program)
        _require(fault is None, f"{owner}: its name is also used as a group name: {fault}")
        is_plain = not (self.delay_level or self.delay_ms or self.keys)
        _require(self.transactions is None or is_plain, f"{owner}: transactions can't have delays or keys")
        _require(1 <= self.at_once <= AT_ONCE_MAX, f"{owner}: at_once={self.at_once}; allowed are 1 to {AT_ONCE_MAX}")
        is_single = bool(self.keys or self.recalls or self.asks_ms or self.transactions)
        _require(
            not (is_single and self.at_once > 1),
            f"{owner}: at_once can't be combined with keys, recalls, asks_ms or transactions",
        )

    @property
    def program(self) -> str:
        """The name of its machines without the number, and of its producer group."""
        return self.name or f"{self.topic}-producer"


@dataclass(frozen=True, slots=True)
class Group(Word):
    """A consumer group: members with push consumers, on machines of their own (group-1, group-2 ...)."""

    name: str
    topic: str | Sequence[str]
    members: int = 1
    ordered: bool = False
    popped: bool = False
    """Members pop from brokers, instead of pulling queues that they share (RocketMQ's POP)."""
    way: str = PUSH
    """The members' consumer: `push`; `lite pull`, which polls; `simple`, which pops and acknowledges."""
    expression: str = ALL_TAGS
    """Tags, like `red || blue`."""
    condition: Condition | None = None
    """A condition over properties (SQL92) instead of tags; see `conditions.py`."""
    takes_ms: tuple[int, int] = (0, 50)
    """How long a call of the listener takes."""
    fails: float = 0.0
    """The share of the calls that fail, as long as there are faults."""
    poison: float = 0.0
    """The share of messages that always fail, until they are dead letters."""
    retries_max: int = -1
    """After this many retries a message is a dead letter; -1: RocketMQ's 16, and never when ordered."""
    batch: int = 1
    replies: bool = False
    """Members reply to each message that is a request."""
    joins_after_seconds: float = 0.0
    """Its members start so long after the producers, when there are messages already; 0: before them."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of PushSettings by name."""
    listener: ProgramListener | None = None
    """A listener of your own. It is awaited after the call was recorded, and its result or exception counts."""

    def check(self) -> None:
        fault = group_fault(self.name)
        _require(fault is None, f"group {self.name!r}: {fault}")
        owner = f"Group({self.name!r})"
        _require(bool(self.topics), f"{owner}: it has no topic")
        _require(1 <= self.members <= CLIENTS_MAX, f"{owner}: members={self.members}; allowed are 1 to {CLIENTS_MAX}")
        low, high = self.takes_ms
        _require(0 <= low <= high, f"{owner}: takes_ms={self.takes_ms}; write (least, most)")
        _check_share(owner, fails=self.fails, poison=self.poison)
        _require(
            not (self.ordered and self.popped), f"{owner}: push consumers can't pop in order; remove one of the two"
        )
        _require(
            not (self.ordered and self.poison and self.retries_max < 0),
            f"{owner}: a poison message blocks an ordered queue forever; set retries_max",
        )
        _require(1 <= self.batch <= BATCH_MAX, f"{owner}: batch={self.batch}; allowed are 1 to {BATCH_MAX}")
        _require(
            0 <= self.joins_after_seconds <= SECONDS_MAX,
            f"{owner}: joins_after_seconds={self.joins_after_seconds}; allowed are 0 to {SECONDS_MAX:.0f}",
        )
        _require(
            -1 <= self.retries_max <= RETRIES_MAX,
            f"{owner}: retries_max={self.retries_max}; allowed are 0 to {RETRIES_MAX}, or -1 (RocketMQ's default)",
        )
        _require(
            not (self.is_filtering and self.ordered),
            f"{owner}: checkers can't check the order of a group that skips messages; remove ordered or the filter",
        )
        _require(
            self.condition is None or self.expression == ALL_TAGS,
            f"{owner}: use either expression or condition, not both",
        )
        check_known(self.way, (PUSH, LITE_PULL, SIMPLE), "kind of consumer")
        is_plain = not (self.settings or self.ordered or self.poison or self.listener or self.replies)
        _require(
            self.way == PUSH or (is_plain and self.popped == (self.way == SIMPLE)),
            f"{owner}: {self.way} consumers don't support settings, order, poison, a listener or replies here; only "
            "simple consumers pop",
        )
        self.check_settings()
        _require(
            not (self.broadcasts and (self.is_filtering or self.ordered or self.popped or self.fails or self.poison)),
            f"{owner}: a broadcasting group can't have a filter, order, pops or failures",
        )

    @property
    def broadcasts(self) -> bool:
        """Whether each member gets all messages."""
        model = self.settings.get("message_model")
        return getattr(model, "name", "") == "BROADCASTING"

    @property
    def is_filtering(self) -> bool:
        """Whether the group filters messages."""
        return self.condition is not None or self.expression != ALL_TAGS

    @property
    def wants(self) -> str:
        """The filter as text."""
        return self.expression if self.condition is None else self.condition.text

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the group subscribes to."""
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    @property
    def member_names(self) -> list[str]:
        """The names of its members' machines."""
        return [f"{self.name}-{number}" for number in range(1, self.members + 1)]

    def check_settings(self) -> None:
        """Raises: UsageError (an unknown setting, or an invalid value)."""
        from staticfire.client import PushSettings

        owner = f"Group({self.name!r})"
        _check_settings(owner, PushSettings, self.settings)


@dataclass(frozen=True, slots=True)
class Brokers(Word):
    """The brokers: broker-a, broker-b ..., each with these `settings`, by the names of BrokerSettings.

    With `replicas`, each is a set of machines: broker-a-0 is the first master, broker-a-1 ... are its slaves.
    """

    count: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    replicas: int = 0
    """The number of slaves of each broker."""
    fails_over: bool = True
    """Slaves take over by themselves when their master is gone."""

    def check(self) -> None:
        _require(1 <= self.count <= BROKERS_MAX, f"Brokers: count={self.count}; allowed are 1 to {BROKERS_MAX}")
        _require(
            0 <= self.replicas <= REPLICAS_MAX, f"Brokers: replicas={self.replicas}; allowed are 0 to {REPLICAS_MAX}"
        )
        copies = self.settings.get("in_sync_replicas", 1)
        _require(
            not isinstance(copies, int) or copies <= 1 + self.replicas or not self.replicas,
            f"Brokers: in_sync_replicas={copies}, but replicas={self.replicas} makes only {1 + self.replicas} machines",
        )
        _check_settings("Brokers", BrokerSettings, self.settings)
        DelayLevels.parse(str(self.settings.get("message_delay_level", "1s")))

    @property
    def names(self) -> list[str]:
        return [f"broker-{chr(ord('a') + number)}" for number in range(self.count)]

    def machines_of(self, name: str) -> list[str]:
        """Return the machines of a broker: one, or with replicas several."""
        return [f"{name}-{number}" for number in range(1 + self.replicas)] if self.replicas else [name]

    @property
    def machines(self) -> list[str]:
        """The machines of all brokers."""
        return [machine for name in self.names for machine in self.machines_of(name)]

    def set_of(self, machine: str) -> str:
        """Return the broker of a machine; the name itself if there are no replicas, or it is no broker's."""
        return machine.rpartition("-")[0] if self.replicas and machine in self.machines else machine

    @property
    def copies_awaited(self) -> int:
        """The number of machines that have a message before it is acknowledged, the master included."""
        if not self.replicas or self.settings.get("broker_role") != "SYNC_MASTER":
            return 1
        return max(1, int(self.settings.get("in_sync_replicas", 1)))

    @property
    def flushes_at_once(self) -> bool:
        """Whether an acknowledged message is on the disk."""
        return self.settings.get("flush_disk_type") == "SYNC_FLUSH"


def _check_settings(owner: str, kind: type[Any], settings: dict[str, Any]) -> None:
    known = [each.name for each in fields(kind)]
    for name in settings:
        try:
            check_known(name, known, f"setting of {kind.__name__}")
        except UsageError as error:
            raise UsageError(f"{owner}: {error}") from None
    made = kind(**settings)
    check_kinds(owner, made, settings)
    for each in fields(kind):
        choices = each.metadata.get("choices")
        if choices and each.name in settings:
            check_known(settings[each.name], choices, f"value of {each.name}")
    check_ranges(made)


@dataclass(frozen=True, slots=True)
class Nemesis(Word):
    """The faults: one at a time, each for a while. Each seed uses some of those in `may`."""

    may: Iterable[str] = USUAL_STRIKES
    every_seconds: float = 30.0
    """The average time from one fault to the next."""
    lasts_seconds: tuple[float, float] = (0.5, 45.0)

    def check(self) -> None:
        for name in self.kinds:
            check_known(name, STRIKES, "fault")
        _require(0 < self.every_seconds <= SECONDS_MAX, f"Nemesis: every_seconds={self.every_seconds} must be above 0")
        low, high = self.lasts_seconds
        _require(0 <= low <= high <= SECONDS_MAX, f"Nemesis: lasts_seconds={self.lasts_seconds}; write (least, most)")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The faults that may occur, in order."""
        return (self.may,) if isinstance(self.may, str) else tuple(dict.fromkeys(self.may))


@dataclass(frozen=True, slots=True)
class Workload(Word):
    """The complete description of a run."""

    topics: Sequence[Topic]
    producers: Sequence[Producers] = ()
    groups: Sequence[Group] = ()
    brokers: Brokers = field(default_factory=Brokers)
    nemesis: Nemesis = field(default_factory=lambda: Nemesis(may=()))
    network: LinkQuality = field(default_factory=LinkQuality)
    """The quality of every link while no fault changes it."""
    timer_jitter_ms: float = 0.5
    """By how much timers may fire late, as in an operating system."""
    settles_within_seconds: float = 600.0
    """The limit after the last fault until all is consumed, each queue has one owner, and nothing waits."""
    checkers: Sequence[type[Any]] = ()
    """Your own checkers, in addition to the built-in ones: subclasses of `staticfire.simulation.checkers.Checker`."""

    def check(self) -> None:
        names = [topic.name for topic in self.topics]
        _require(bool(names), "the workload has no topic")
        for what, given in (("topic", names), ("group", [group.name for group in self.groups]),
                            ("producer", [one.program for one in self.producers])):  # fmt: skip
            twice = {name for name in given if given.count(name) > 1}
            _require(not twice, f"{what} {min(twice, default='')!r} exists twice; use different names")
        both = {one.program for one in self.producers}.intersection(group.name for group in self.groups)
        _require(
            not both,
            f"{min(both, default='')!r} is the name of a group and of producers; their machines need different names",
        )
        check_kinds("network", self.network)
        for kind in self.checkers:
            _require(
                _is_checker(kind), f"Workload: checkers={shown(repr(kind))}; it must contain subclasses of Checker"
            )
        for producers in self.producers:
            check_known(producers.topic, names, "topic")
            _check_namespace("producers", producers.program, producers.topic)
        for group in self.groups:
            for topic in group.topics:
                check_known(topic, names, "topic")
                _check_namespace("group", group.name, topic)
        _require(
            0 < self.settles_within_seconds <= SECONDS_MAX,
            f"settles_within_seconds={self.settles_within_seconds} must be above 0 and at most {SECONDS_MAX:.0f}",
        )
        clients = sum(group.members for group in self.groups) + sum(one.clients for one in self.producers)
        _require(clients <= CLIENTS_MAX, f"the workload has {clients} clients; the limit is {CLIENTS_MAX}")


def _check_namespace(what: str, name: str, topic: str) -> None:
    _require(
        namespace_of(name) == namespace_of(topic), f"{what} {name!r} is in another namespace than its topic {topic!r}"
    )


def _is_checker(kind: type[Any]) -> bool:
    from staticfire.simulation.checkers.checker import Checker  # It imports this module.

    return issubclass(kind, Checker)
