"""What a part of the seeds does besides plain sending and consuming: one function per kind.

Each takes a workload that a seed has already made up and returns it with something more. They have a source of chance
of their own, which the plain part never sees: whatever is added here, the plain part of a seed stays what it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from staticfire.faults.workload.conditions import Above, Between, Both, Condition, Either, Missing, Not, OneOf
from staticfire.faults.workload.description import Group, Workload
from staticfire.faults.workload.strikes import ADMINISTRATION

Kind = Callable[[Random, Workload], Workload]

PLAIN_SHARE = 0.5
# So many seeds do nothing of this.
KIND_SHARE = 0.3
# How likely each kind is, in the others.

ACT_SHARE = 0.6
# How likely each of an administrator's acts may happen.
TAGS = ("", "red", "blue", "Aa", "BB")
# The last two have the same hash code: a broker can't tell them apart, and consumers have to.
PROPERTIES = {"amount": ("", "1", "40", "250"), "region": ("", "eu", "us", "asia")}
EXPRESSIONS = ("red", "red || blue", "Aa", "BB || red", "green")
CONDITIONS: tuple[Condition, ...] = (
    Above("amount", 30),
    OneOf("region", ("eu", "us")),
    Both(Between("amount", 1, 40), Not(OneOf("region", ("eu",)))),
    Either(Missing("region"), Above("amount", 100)),
    Not(Either(Above("amount", 30), OneOf("region", ("us", "asia")))),
)


def with_kinds(chance: Random, workload: Workload) -> Workload:
    """Return the workload with some of the kinds, by chance, or as it is."""
    if chance.random() < PLAIN_SHARE:
        return workload
    chosen = [name for name in KINDS if chance.random() < KIND_SHARE] or [chance.choice(list(KINDS))]
    return with_some(chance, workload, chosen)


def with_some(chance: Random, workload: Workload, names: Sequence[str]) -> Workload:
    """Return the workload with the kinds of these names."""
    for name in names:
        workload = KINDS[name](chance, workload)
    return workload


def _filtering(chance: Random, workload: Workload) -> Workload:
    """Messages have tags and properties, and a further group or two want some of them."""
    topics = [topic.name for topic in workload.topics]
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
    producers = [replace(one, tags=TAGS, properties=PROPERTIES) for one in workload.producers]
    return replace(workload, groups=groups, producers=producers)


def _administration(chance: Random, workload: Workload) -> Workload:
    """Administrators change things while the cluster works."""
    wanted = [kind for kind in ADMINISTRATION if chance.random() < ACT_SHARE] or [chance.choice(ADMINISTRATION)]
    return replace(workload, nemesis=replace(workload.nemesis, may=(*workload.nemesis.kinds, *wanted)))


KINDS: dict[str, Kind] = {"filters": _filtering, "administration": _administration}
