"""The workload of a seed without a file: a random mix of brokers, topics, programs, settings and faults.

Each run leaves out many things, so that also those errors occur that need their absence (swarm testing: Groce and
others, 2012).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from staticfire.client import AVERAGELY, AVERAGELY_BY_CIRCLE, ClientSettings
from staticfire.simulation.runs.swarm_kinds import with_kinds
from staticfire.simulation.runs.swarm_replicas import with_replicas
from staticfire.simulation.workload.description import (
    Brokers,
    Group,
    Nemesis,
    Producers,
    Topic,
    Transactions,
    Workload,
)
from staticfire.simulation.workload.loading import WorkloadMaker, load_workload
from staticfire.simulation.workload.strikes import USUAL_STRIKES
from staticfire.simulation.workload.varying import varied_maker
from staticfire.simulation.world.link import LinkQuality

T = TypeVar("T")

SETTLES_WITHIN_S = 900.0
# How long a listener takes. With fewer threads in a group, the messages of the longest runs couldn't be consumed in
# time; the same is true for fewer queues if they are consumed in order.
SLOW_MS, LESS_SLOW_MS, SLOW_THREADS_MIN = (50, 800), (50, 300), 4
# How long faults last. A silent member is removed from its group after 120 s: in the last range, always.
LASTS_S = ((0.1, 5.0), (0.5, 45.0), (20.0, 200.0), (130.0, 300.0))
# The share of runs.
POPPED_SHARE = 0.3
SHORT_DELAYS = "1s 2s 3s 5s 8s 13s"


def maker_of(path: str, changes: Mapping[str, str] | None = None) -> WorkloadMaker:
    """Return a function that makes the workloads of a file, or the seeds' own without a file. Raises: UsageError.

    `changes`: differences from the file, see varying.py.
    """
    make = load_workload(path) if path else swarm_workload
    return varied_maker(make, changes or {})


def swarm_workload(chance: Random) -> Workload:
    """Return the workload of a seed: the plain part, and for some seeds the additions of `swarm_kinds.py`."""
    workload = single_workload(chance)
    # Drawn last, so that it changes nothing in seeds without replicas.
    return with_replicas(Random(chance.getrandbits(64)), workload)


def single_workload(chance: Random) -> Workload:
    """Return the workload of a seed without slaves."""
    workload = plain_workload(chance)
    return with_kinds(Random(chance.getrandbits(64)), workload)


def plain_workload(chance: Random) -> Workload:
    """Return the part that every seed has. Don't change what it makes of a given seed."""
    topics = [Topic(name, chance.choice((1, 2, 4, 8))) for name in ("orders", "payments")[: chance.choice((1, 2))]]
    workload = Workload(
        brokers=Brokers(chance.choice((1, 1, 2, 3)), _broker_settings(chance)),
        topics=topics,
        producers=list(_producers(chance, topics)),
        groups=list(_groups(chance, topics)),
        nemesis=_nemesis(chance),
        network=LinkQuality(delay_ms=chance.choice((0.05, 0.5, 5)), jitter_ms=chance.choice((0, 0.2, 3))),
        timer_jitter_ms=chance.choice((0.0, 0.3, 3.0)),
        settles_within_seconds=SETTLES_WITHIN_S,
    )
    return _popping(chance, workload) if chance.random() < POPPED_SHARE else workload


def _popping(chance: Random, workload: Workload) -> Workload:
    """Return the workload with a group that pops instead of pulling."""
    first, *others = workload.groups
    settings = _some(chance, {"pop_invisible_time_ms": (5_000, 20_000), "pop_batch_nums": (1, 4),
                              "pop_threshold_for_queue": (2,)})  # fmt: skip
    at_brokers = _some(
        chance,
        {"pop_dead_letters": (True,), "enable_retry_topic_v2": (True,), "wake_pops_of_returning": (True,)},
    )
    popping = replace(first, popped=True, settings={**first.settings, **settings})
    brokers = replace(workload.brokers, settings={**workload.brokers.settings, **at_brokers})
    return replace(workload, groups=[popping, *others], brokers=brokers)


def _some(chance: Random, settings: dict[str, Sequence[Any]], share: float = 0.4) -> dict[str, Any]:
    """Return a random part of the settings, each with one of its values."""
    return {name: chance.choice(values) for name, values in settings.items() if chance.random() < share}


def _broker_settings(chance: Random) -> dict[str, Any]:
    settings = _some(
        chance,
        {
            "flush_interval_commit_log": (20, 500, 2_000),
            "flush_interval_consume_queue": (20, 1_000, 5_000),
            "flush_consumer_offset_interval": (100, 1_000, 20_000),
            "transaction_time_out": (500, 6_000),
            "transaction_check_interval": (2_000, 30_000),
            "mapped_file_size_commit_log": (64 * 1024, 1024 * 1024),
            "broker_heartbeat_interval": (1_000,),
            "register_name_server_period": (5_000, 30_000),
            "long_polling_enable": (False,),
            "journal_enable": (True,),
            "notify_consumer_ids_changed_enable": (False, True),
        },
    )
    settings["flush_disk_type"] = chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))
    settings["message_delay_level"] = SHORT_DELAYS  # With the default, retries of a failing group would take hours.
    return settings


def _producers(chance: Random, topics: list[Topic]) -> list[Producers]:
    made = []
    for topic in topics:
        rate = chance.choice((0.5, 2.0, 5.0))
        made.append(Producers(topic.name, rate, chance.choice((1, 2)), f"{topic.name}-web", keys=chance.choice((0, 9))))
        if chance.random() < 0.4:
            made.append(Producers(topic.name, rate / 4, name=f"{topic.name}-later", delay_level=chance.randint(1, 6)))
        if chance.random() < 0.3:
            delay_ms = chance.choice((700, 5_000, 33_333))
            made.append(Producers(topic.name, rate / 4, name=f"{topic.name}-timed", delay_ms=delay_ms))
        if chance.random() < 0.4:
            shares = Transactions(chance.choice((0.3, 0.6, 0.9)), 0.1)
            made.append(Producers(topic.name, rate / 4, name=f"{topic.name}-paid", transactions=shares))
    return made


def _groups(chance: Random, topics: list[Topic]) -> list[Group]:
    names = [topic.name for topic in topics]
    groups = [Group("billing", names, **_member_words(chance), **_concurrent_words(chance))]
    if chance.random() < 0.7:
        words = _member_words(chance)
        if words["takes_ms"] == SLOW_MS and topics[0].queues < SLOW_THREADS_MIN:
            words["takes_ms"] = LESS_SLOW_MS
        groups.append(Group("shipping", names[0], ordered=True, **words, fails=chance.choice((0, 0.05))))
    return groups


def _member_words(chance: Random) -> dict[str, Any]:
    settings = _some(
        chance,
        {
            "pull_batch_size": (1, 4),
            "persist_interval_ms": (500, 20_000),
            "consume_threads": (1, 3),
            "allocate_strategy": (AVERAGELY, AVERAGELY_BY_CIRCLE),
            "pull_threshold_for_queue": (2, 20),
            "lock_interval_ms": (5_000, 20_000),
            "broker_suspend_max_ms": (1_000, 15_000),
        },
    )
    client = _some(chance, {"protocol": ("rocketmq",), "heartbeat_broker_interval_ms": (5_000,),
                            "rebalance_interval_ms": (2_000, 20_000)})  # fmt: skip
    members = chance.choice((1, 2, 3))
    takes_ms = chance.choice(((0, 0), (0, 30), SLOW_MS))
    if takes_ms == SLOW_MS and members * settings.get("consume_threads", SLOW_THREADS_MIN) < SLOW_THREADS_MIN:
        takes_ms = LESS_SLOW_MS
    return {
        "members": members,
        "takes_ms": takes_ms,
        "batch": chance.choice((1, 1, 5)),
        "settings": {**settings, "client": ClientSettings(**client)},
    }


def _concurrent_words(chance: Random) -> dict[str, Any]:
    if chance.random() < 0.4:
        return {}
    return {
        "fails": chance.choice((0.01, 0.1)),
        "poison": chance.choice((0.0, 0.02)),
        "retries_max": chance.choice((1, 3)),
    }


def _nemesis(chance: Random) -> Nemesis:
    kinds = list(USUAL_STRIKES)
    kept = [kind for kind in kinds if chance.random() < 0.5] or kinds
    return Nemesis(kept, chance.choice((5.0, 15.0, 60.0)), chance.choice(LASTS_S))
