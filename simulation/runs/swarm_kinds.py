"""What some seeds do in addition to plain sending and consuming: one function per kind.

Each function takes the workload that a seed has created so far, and returns it with additions. The functions have their
own source of randomness, so additions here never change the plain part of a seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from staticfire.client import AVERAGELY, AVERAGELY_BY_CIRCLE, MessageModel
from staticfire.simulation.workload.conditions import Above, Between, BothOf, Condition, EitherOf, Missing, Not, OneOf
from staticfire.simulation.workload.description import (
    LITE_PULL,
    SIMPLE,
    Group,
    Producers,
    Topic,
    Workload,
    namespace_of,
)
from staticfire.simulation.workload.strikes import ADMINISTRATION, LASTING

Kind = Callable[[Random, Workload], Workload]

# The share of seeds without any of these kinds.
PLAIN_SHARE = 0.5
# The probability of each kind in the other seeds.
KIND_SHARE = 0.3

# The probability of a group that joins late, and of programs that send in bursts.
MORE_SHARE = 0.15
# Clients compress bodies from 4 KiB on.
LARGE_BYTES = 5_000
# The shares of seeds in which nothing breaks, or something every few minutes. Only there, lateness has no excuse.
CALM_SHARE, RARE_SHARE, RARE_S = 0.12, 0.12, 150.0
# The probability of each of an administrator's actions.
ACT_SHARE = 0.6
# The last two have the same hash code: a broker can't distinguish them, so consumers must.
TAGS = ("", "red", "blue", "Aa", "BB")
PROPERTIES: dict[str, Sequence[str]] = {"amount": ("", "1", "40", "250"), "region": ("", "eu", "us", "asia")}
EXPRESSIONS = ("red", "red || blue", "Aa", "BB || red", "green")
CONDITIONS: tuple[Condition, ...] = (
    Above("amount", 30),
    OneOf("region", ("eu", "us")),
    BothOf(Between("amount", 1, 40), Not(OneOf("region", ("eu",)))),
    EitherOf(Missing("region"), Above("amount", 100)),
    Not(EitherOf(Above("amount", 30), OneOf("region", ("us", "asia")))),
)


def with_kinds(chance: Random, workload: Workload) -> Workload:
    """Return the workload with some of the kinds, by chance, or as it is; in some seeds less breaks than it says."""
    if chance.random() >= PLAIN_SHARE:
        chosen = [name for name in KINDS if chance.random() < KIND_SHARE] or [chance.choice(list(KINDS))]
        workload = with_some(chance, workload, chosen)
    return _with_keys(chance, _with_more(chance, workload))


def _with_more(chance: Random, workload: Workload) -> Workload:
    """Return it with what came later than the kinds, so that these stay what they were in each seed."""
    if chance.random() < MORE_SHARE:
        workload = _late(chance, workload)
    if chance.random() < MORE_SHARE:
        workload = _bursts(chance, workload)
    share = chance.random()
    if chance.random() < MORE_SHARE:
        workload = _large(workload)
    if share < CALM_SHARE:
        acts = tuple(kind for kind in workload.nemesis.kinds if kind in ADMINISTRATION)
        return replace(workload, nemesis=replace(workload.nemesis, may=acts))
    if share < CALM_SHARE + RARE_SHARE:
        return replace(workload, nemesis=replace(workload.nemesis, every_seconds=RARE_S))
    return workload


def _with_keys(chance: Random, workload: Workload) -> Workload:
    """In some seeds messages have keys. This is drawn last, so that it changes nothing in other seeds."""
    if chance.random() >= MORE_SHARE:
        return workload
    return replace(workload, producers=[replace(one, has_keys=True) for one in workload.producers])


def _large(workload: Workload) -> Workload:
    """All bodies are so large that clients compress them. Replies are the names of requests, so these stay small."""
    producers = [one if one.asks_ms else replace(one, body=_large_body) for one in workload.producers]
    return replace(workload, producers=producers)


def _large_body(number: int) -> bytes:
    return b"%08d" % number * (LARGE_BYTES // 8)


def _late(chance: Random, workload: Workload) -> Workload:
    """A further group joins when there are messages already; it gets them from the first on."""
    topics = _plain_topics(workload)
    words: dict[str, Any] = {"ordered": True} if chance.random() < 0.3 else {}
    if not words and any(producers.properties for producers in workload.producers):
        words = {"condition": chance.choice(CONDITIONS), "settings": {"pull_batch_size": chance.choice((1, 4))}}
    joins_s, members = chance.choice((8.0, 25.0)), chance.choice((1, 2))
    group = Group("audit", topics[0], members, **words, takes_ms=(0, 5), joins_after_seconds=joins_s)
    return replace(workload, groups=[*workload.groups, group])


def _bursts(chance: Random, workload: Workload) -> Workload:
    """A program sends many messages at once, and two groups bury what always fails."""
    topic, at_once = chance.choice(_plain_topics(workload)), chance.choice((3, 12))
    made = Producers(topic, at_once / chance.choice((3, 8)), name="bulk", at_once=at_once)
    group = Group("checks", topic, fails=0.05, poison=0.05, retries_max=1, takes_ms=(0, 5))
    return _with(workload, [], [made], [group])


def with_some(chance: Random, workload: Workload, names: Sequence[str]) -> Workload:
    """Return the workload with these kinds."""
    for name in names:
        workload = (KINDS.get(name) or MORE_KINDS[name])(chance, workload)
    return workload


def _filtering(chance: Random, workload: Workload) -> Workload:
    """Messages have tags and properties, and one or two additional groups filter by them."""
    topics = _plain_topics(workload)
    groups = list(workload.groups)
    is_first_popped = workload.groups[0].popped
    if chance.random() < 0.7:
        words: dict[str, Any] = {"expression": chance.choice(EXPRESSIONS)}
        if chance.random() < 0.4:
            words |= {"fails": 0.1, "retries_max": chance.choice((1, 3))}
        groups.append(Group("tagged", topics, chance.choice((1, 2)), **words))
    if len(groups) == len(workload.groups) or chance.random() < 0.7:
        condition = chance.choice(CONDITIONS)
        groups.append(Group("matching", topics[0], chance.choice((1, 2)), popped=is_first_popped, condition=condition))
        if chance.random() < 0.5:
            groups[-1] = replace(groups[-1], settings={"pull_batch_size": 1, "pop_batch_nums": 1})
    producers = [replace(one, tags=TAGS, properties=PROPERTIES) for one in workload.producers]
    return replace(workload, groups=groups, producers=producers)


def _administration(chance: Random, workload: Workload) -> Workload:
    """Administrators make changes while the cluster works."""
    wanted = [kind for kind in ADMINISTRATION if chance.random() < ACT_SHARE] or [chance.choice(ADMINISTRATION)]
    return replace(workload, nemesis=replace(workload.nemesis, may=(*workload.nemesis.kinds, *wanted)))


def _timed(chance: Random, workload: Workload) -> Workload:
    """Messages have a time of delivery, and some are recalled before it."""
    made = Producers(
        chance.choice(_plain_topics(workload)), chance.choice((0.5, 2.0)), name="timed",
        delay_ms=chance.choice((1_500, 12_000, 40_000)), is_exact=chance.random() < 0.7,
        recalls=chance.choice((0.3, 1.0)),
    )  # fmt: skip
    return replace(workload, producers=[*workload.producers, made])


def _requests(chance: Random, workload: Workload) -> Workload:
    """Programs send requests, and members of a group reply."""
    asking = Producers("questions", chance.choice((0.5, 2.0)), chance.choice((1, 2)), "asking", asks_ms=20_000)
    members = chance.choice((1, 2))
    group = Group("answering", "questions", members, replies=True, batch=chance.choice((1, 5)))
    return _with(workload, [Topic("questions", chance.choice((1, 4)))], [asking], [group])


def _polling(chance: Random, workload: Workload) -> Workload:
    """A group polls or receives its messages."""
    topics = _plain_topics(workload)
    members, takes_ms = chance.choice((1, 2, 3)), chance.choice(((0, 0), (0, 30)))
    if chance.random() < 0.5:
        group = Group("polling", topics, members, way=LITE_PULL, takes_ms=takes_ms)
    else:
        batch = chance.choice((4, 16))
        group = Group("receiving", topics[0], members, way=SIMPLE, popped=True, takes_ms=takes_ms, batch=batch)
    return replace(workload, groups=[*workload.groups, group])


def _broadcast(chance: Random, workload: Workload) -> Workload:
    """Each member of an additional group gets all messages."""
    topic = chance.choice(_plain_topics(workload))
    settings = {"message_model": MessageModel.BROADCASTING}
    group = Group("news", topic, chance.choice((1, 2, 3)), takes_ms=(0, 20), settings=settings)
    return replace(workload, groups=[*workload.groups, group])


def _several(chance: Random, workload: Workload) -> Workload:
    """Two additional topics, each with programs and groups whose settings differ from all others."""
    topics = [Topic("returns", chance.choice((1, 3, 6))), Topic("visits", chance.choice((1, 2, 16)))]
    producers = [Producers(topic.name, chance.choice((0.3, 1.0)), keys=chance.choice((0, 5))) for topic in topics]
    groups = []
    for topic in topics:
        settings = {
            "pull_batch_size": chance.choice((1, 8, 32)), "persist_interval_ms": chance.choice((1_000, 10_000)),
            "allocate_strategy": chance.choice((AVERAGELY, AVERAGELY_BY_CIRCLE)),
            "pull_threshold_for_queue": chance.choice((3, 1_000)),
        }  # fmt: skip
        is_ordered = chance.random() < 0.5
        name = f"{topic.name}-{'ledger' if is_ordered else 'board'}"
        groups.append(Group(name, topic.name, chance.choice((1, 2, 3)), is_ordered, settings=settings))
    return _with(workload, topics, producers, groups)


def _namespaces(chance: Random, workload: Workload) -> Workload:
    """The same names once more in a namespace: messages don't pass between it and the other groups."""
    first = workload.topics[0]
    topic = Topic(f"blue%{first.name}", first.queues)
    producers = Producers(topic.name, chance.choice((0.5, 2.0)), name=f"blue%{first.name}-web")
    words: dict[str, Any] = {"fails": 0.1, "retries_max": 2} if chance.random() < 0.5 else {}
    group = Group(f"blue%{workload.groups[0].name}", topic.name, chance.choice((1, 2)), **words)
    return _with(workload, [topic], [producers], [group])


def _plain_topics(workload: Workload) -> list[str]:
    """Return the names of all topics without a namespace."""
    return [topic.name for topic in workload.topics if not namespace_of(topic.name)]


def _with(
    workload: Workload, topics: Sequence[Topic], producers: Sequence[Producers], groups: Sequence[Group]
) -> Workload:
    return replace(
        workload, topics=[*workload.topics, *topics], producers=[*workload.producers, *producers],
        groups=[*workload.groups, *groups],
    )  # fmt: skip


def _losses(chance: Random, workload: Workload) -> Workload:
    """Machines disappear for good, and others take over."""
    nemesis = workload.nemesis
    wanted = [kind for kind in LASTING if chance.random() < ACT_SHARE] or [chance.choice(LASTING)]
    brokers = replace(workload.brokers, count=max(2, workload.brokers.count))
    groups = [replace(group, members=max(2, group.members)) for group in workload.groups]
    nemesis = replace(nemesis, may=(*nemesis.kinds, *wanted))
    return replace(workload, nemesis=nemesis, brokers=brokers, groups=groups)


KINDS: dict[str, Kind] = {
    "several": _several,
    "namespaces": _namespaces,
    "timed": _timed,
    "requests": _requests,
    "polling": _polling,
    "broadcast": _broadcast,
    "filters": _filtering,
    "administration": _administration,
    "losses": _losses,
}
"""Kinds that create groups and programs come first, because the last ones change what exists."""

MORE_KINDS: dict[str, Kind] = {"late": _late, "bursts": _bursts}
"""Those that may come on top of all."""
