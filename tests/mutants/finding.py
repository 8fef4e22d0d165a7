"""Which seed of the swarm finds a mutant, and what it says then."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from staticfire.client import AVERAGELY_BY_CIRCLE
from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.runs.swarm import plain_workload
from staticfire.simulation.runs.swarm_kinds import with_some
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Transactions, Workload
from staticfire.simulation.workload.conditions import Above
from staticfire.simulation.workload.loading import WorkloadMaker
from tests.mutants.foreign_mutants import FOREIGN_KINDS
from tests.mutants.judged_mutants import FURTHER_MUTANTS, MISSED_MUTANTS
from tests.mutants.kind_mutants import KINDS_OF
from tests.mutants.look_up_mutants import LOOK_UP_MUTANTS
from tests.mutants.mutants import MUTANTS
from tests.mutants.pop_mutants import POP_MUTANTS
from tests.mutants.promise_mutants import PROMISE_MUTANTS
from tests.mutants.replica_mutants import LEANS_OF_REPLICAS
from tests.mutants.share_mutants import SHARE_MUTANTS

HOURS = 0.02
SEEDS_MAX = 200
OTHERS = 12
# Seeds that are tried, too, when a known one finds its mutant no more: each change of the program shifts them.
EVERY_S, LASTS_S = 4.0, (0.1, 5.0)
SETTLES_WITHIN_S = 400.0
KNOWN = Path(__file__).with_name("known.json")


class Found(NamedTuple):
    """What a seed has found."""

    mutant: str
    seed: int
    checker: str
    words: str


def hard_workload(chance: Random) -> Workload:
    """Return the plain part of what a seed of the swarm has to do, with faults that come thick and fast."""
    workload = plain_workload(chance)
    nemesis = replace(workload.nemesis, every_seconds=EVERY_S, lasts_seconds=LASTS_S)
    return replace(workload, nemesis=nemesis, settles_within_seconds=SETTLES_WITHIN_S)


def disk_workload(chance: Random) -> Workload:
    """Return one that leans on the disk: a broker that loses power, and a disk that fails."""
    settings = {
        "flush_disk_type": chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
        "flush_interval_commit_log": chance.choice((20, 500, 2_000)),
        "flush_consumer_offset_interval": chance.choice((100, 1_000)),
        "message_delay_level": "1s 2s 3s",
    }
    return Workload(
        brokers=Brokers(1, settings),
        topics=[Topic("orders", 2)],
        producers=[Producers("orders", 8), Producers("orders", 2, name="later", delay_level=chance.randint(1, 3))],
        groups=[Group("billing", "orders")],
        nemesis=Nemesis(DISK_STRIKES, EVERY_S, LASTS_S),
        settles_within_seconds=SETTLES_WITHIN_S,
    )


def power_workload(chance: Random) -> Workload:
    """Return one in which brokers lose power again and again, and much of what they have isn't on the disk."""
    return Workload(
        brokers=Brokers(1, {"flush_disk_type": "ASYNC_FLUSH", "flush_interval_commit_log": 2_000}),
        topics=[Topic("orders", 2), Topic("bills", 1)],
        producers=[Producers("orders", 20), Producers("bills", 20)],
        groups=[
            Group("shipping", "orders", ordered=True),
            Group("billing", "orders", popped=True, settings={"pop_invisible_time_ms": 5_000}),
        ],
        nemesis=Nemesis(("lose power", "lose power at a step"), chance.choice((EVERY_S, 10.0)), (0.1, 1.0)),
        settles_within_seconds=SETTLES_WITHIN_S,
    )


def ordered_workload(chance: Random) -> Workload:
    """Return one that leans on order: members that come and go while listeners run."""
    return Workload(
        brokers=Brokers(chance.choice((1, 2)), {"message_delay_level": "1s 2s 3s"}),
        topics=[Topic("orders", chance.choice((2, 4)))],
        producers=[Producers("orders", 8)],
        groups=[
            Group("shipping", "orders", members=3, ordered=True, takes_ms=(20, 400), batch=chance.choice((1, 5))),
            Group("billing", "orders", members=2, takes_ms=(20, 400)),
        ],
        nemesis=Nemesis(MEMBER_STRIKES, EVERY_S, LASTS_S),
        settles_within_seconds=SETTLES_WITHIN_S,
    )


def members_workload(chance: Random) -> Workload:
    """Return one in which nothing happens but that members come and go."""
    workload = ordered_workload(chance)
    return replace(workload, nemesis=Nemesis(("kill member", "restart member"), EVERY_S, LASTS_S))


def sharing_workload(chance: Random) -> Workload:
    """Return one whose members come and go, with few threads and several messages per call."""
    workload = members_workload(chance)
    settings = {"consume_threads": chance.choice((1, 2)), "allocate_strategy": AVERAGELY_BY_CIRCLE}
    shipping, billing = workload.groups
    groups = [replace(shipping, batch=5), replace(billing, batch=5, members=3, settings=settings)]
    return replace(workload, producers=[Producers("orders", 20)], groups=groups)


def restarting_workload(chance: Random) -> Workload:
    """Return one in which nothing happens but that brokers stop in order and start again."""
    return replace(ordered_workload(chance), nemesis=Nemesis("restart broker", EVERY_S, LASTS_S))


def popping_workload(chance: Random) -> Workload:
    """Return one whose members pop, and come and go."""
    return Workload(
        brokers=Brokers(chance.choice((1, 2))),
        topics=[Topic("orders", chance.choice((2, 4)))],
        producers=[Producers("orders", 5)],
        groups=[
            Group("billing", "orders", members=2, popped=True, takes_ms=(20, 4_000), fails=0.05, poison=0.02,
                  retries_max=2, settings={"pop_invisible_time_ms": 5_000}),
        ],
        nemesis=Nemesis(MEMBER_STRIKES, EVERY_S, LASTS_S),
        settles_within_seconds=SETTLES_WITHIN_S,
    )  # fmt: skip


def calm_workload(chance: Random) -> Workload:
    """Return the same, and nothing happens to them."""
    return replace(popping_workload(chance), nemesis=Nemesis(may=()))


def quiet_workload(chance: Random) -> Workload:
    """Return one with everything a bit, and nothing happens: what is late is late without an excuse."""
    return Workload(
        brokers=Brokers(chance.choice((1, 2)), {**QUIET_SETTINGS}),
        topics=[Topic("orders", chance.choice((2, 4)))],
        producers=[
            Producers("orders", 4, name="web"),
            Producers("orders", 1, name="later", delay_level=chance.randint(1, 3)),
            Producers("orders", 1, name="timed", delay_ms=chance.choice((700, 5_000))),
            Producers("orders", 1, name="paid", transactions=Transactions(0.4, 0.2)),
        ],
        groups=[
            Group("billing", "orders", members=2, fails=0.1, poison=0.02, retries_max=chance.choice((1, 3))),
            Group("shipping", "orders", members=2, ordered=True, poison=0.02, retries_max=1),
        ],
        settles_within_seconds=SETTLES_WITHIN_S,
    )


def look_up_workload(chance: Random) -> Workload:
    """Return one whose messages have keys, and whose brokers are killed now and then."""
    workload = quiet_workload(chance)
    producers = [replace(one, has_keys=True) for one in workload.producers]
    return replace(workload, producers=producers, nemesis=Nemesis("kill broker", 3 * EVERY_S, (0.5, 2.0)))


def small_files_workload(chance: Random) -> Workload:
    """Return one in which nothing happens, and of whose log a file is full every few seconds."""
    return Workload(
        brokers=Brokers(1, {"mapped_file_size_commit_log": 64 * 1024}),
        topics=[Topic("orders", chance.choice((2, 4)))],
        producers=[Producers("orders", 8, body=lambda _: bytes(4_000))],
        groups=[Group("billing", "orders")],
        settles_within_seconds=SETTLES_WITHIN_S,
    )


def leaving_workload(chance: Random) -> Workload:
    """Return one in which members leave in order, one at a time: slow ones, with much that is under way."""
    workload = ordered_workload(chance)
    groups = [
        replace(group, takes_ms=(200, 600), settings={"persist_interval_ms": 20_000}) for group in workload.groups
    ]
    nemesis = Nemesis("restart member", RARELY_S, (1.0, RARELY_S))
    return replace(workload, producers=[Producers("orders", 8, keys=3)], groups=groups, nemesis=nemesis)


def silent_workload(chance: Random) -> Workload:
    """Return one in which members fall silent and don't come back before the end."""
    workload = ordered_workload(chance)
    return replace(workload, nemesis=Nemesis(("isolate member", "freeze member"), RARELY_S, (3_000.0, 4_000.0)))


def returning_workload(chance: Random) -> Workload:
    """Return one in which members fall silent for so long that others have their queues when they come back."""
    workload = ordered_workload(chance)
    return replace(workload, nemesis=Nemesis(("isolate member", "freeze member"), RARELY_S, (140.0, 200.0)))


QUIET_SETTINGS = {
    "message_delay_level": "1s 2s 3s 5s 8s 13s", "transaction_time_out": 2_000, "transaction_check_interval": 5_000,
}  # fmt: skip
RARELY_S = 60.0


def kind_workload(*kinds: str) -> WorkloadMaker:
    """Return what makes workloads of the swarm that are of these kinds, too, with no other faults than they bring."""

    def make(chance: Random) -> Workload:
        may = ("kill member", "restart member") if "broadcast" in kinds else ()
        workload = replace(plain_workload(chance), nemesis=Nemesis(may, EVERY_S, LASTS_S))
        return with_some(Random(chance.getrandbits(64)), workload, kinds)

    return make


DISK_STRIKES = ("lose power", "lose power at a step", "kill broker at a step", "failing syncs", "failing writes")
MEMBER_STRIKES = ("kill member", "restart member", "kill broker", "restart broker")


def spare_workload(chance: Random) -> Workload:
    """Return one in which a broker is gone for good soon, and nothing else happens."""
    nemesis = Nemesis("kill broker for good", every_seconds=15.0)
    workload = quiet_workload(chance)
    # A message with a key has one queue, so its send isn't tried on another broker.
    producers = [*workload.producers, Producers("orders", 2, name="keyed", keys=9)]
    return replace(workload, brokers=Brokers(2, {**QUIET_SETTINGS}), producers=producers, nemesis=nemesis)


def far_workload(chance: Random) -> Workload:
    """Return one in which brokers die while messages wait for minutes for their time."""
    return Workload(
        brokers=Brokers(1, {"flush_disk_type": "SYNC_FLUSH"}),
        topics=[Topic("orders", chance.choice((1, 2)))],
        producers=[Producers("orders", 2, name="timed", delay_ms=300_000, is_exact=True)],
        groups=[Group("billing", "orders", takes_ms=(0, 10))],
        nemesis=Nemesis("kill broker", RARELY_S, (0.5, 2.0)),
        settles_within_seconds=3 * SETTLES_WITHIN_S,
    )


def filtered_workload(chance: Random) -> Workload:
    """Return one in which groups want few of the messages, and nothing happens."""
    groups = [
        Group("tagged", "orders", 2, expression="red", takes_ms=(0, 5)),
        Group("large", "orders", condition=Above("amount", 30), takes_ms=(0, 5)),
    ]
    producers = [Producers("orders", 1, tags=("red", "blue", ""), properties={"amount": ("1", "40")})]
    return Workload([Topic("orders", chance.choice((1, 2)))], producers, groups)


def administered_workload(chance: Random) -> Workload:
    """Return one in which nothing breaks, and an administrator changes queues and offsets."""
    nemesis = Nemesis(("fewer write queues", "reset offsets"), RARELY_S, (50.0, RARELY_S))
    return replace(quiet_workload(chance), nemesis=nemesis)


LEANS: dict[str, WorkloadMaker] = {
    **dict.fromkeys(
        (
            "a message is acknowledged before the disk has it",
            "offsets are saved ahead of the log",
            "what a failed fsync covered isn't written again",
            "errors of fsync are ignored",
            "a start forgets what waits",
        ),
        disk_workload,
    ),
    **dict.fromkeys(
        (
            "locks are granted to whoever asks",
            "locks never expire",
            "a consumer takes queues without asking for their locks",
            "what was pulled is committed, not what is done",
        ),
        ordered_workload,
    ),
    "a new owner begins a queue at its start": members_workload,
    "the log continues behind a hole": power_workload,
    "a late commit sets its group back": returning_workload,
    **dict.fromkeys(POP_MUTANTS, popping_workload),
    "half of what was popped isn't acknowledged": calm_workload,
    **dict.fromkeys((*MISSED_MUTANTS, *FURTHER_MUTANTS), quiet_workload),
    "a lock is kept on close": leaving_workload,
    "anybody may unlock a queue": returning_workload,
    "a silent member is removed ten times as late": silent_workload,
    "who leaves doesn't hand over its offsets": leaving_workload,
    "no member is notified when a group changes": leaving_workload,
    **dict.fromkeys(
        (
            "a popped message is dead one retry early",
            "popped messages come again late",
            "a popped message isn't put off for as long as it says",
            "an acknowledgement counts for the next message, too",
        ),
        calm_workload,
    ),
    "heartbeats go to one broker only": members_workload,
    "what was just stored is removed as old": small_files_workload,
    "offsets are never saved": restarting_workload,
    **{name: kind_workload(kind) for name, kind in KINDS_OF.items()},
    **{name: kind_workload(*kinds) for name, kinds in FOREIGN_KINDS.items()},
    "an offset counts the message at work": members_workload,
    "the last acknowledgement ends the whole pop": popping_workload,
    "a popped message that is put off is due as before, too": calm_workload,
    "who unlocks one queue unlocks all": members_workload,
    "saved offsets of two queues are mixed up": restarting_workload,
    **LEANS_OF_REPLICAS,
    **dict.fromkeys(PROMISE_MUTANTS, quiet_workload),
    **dict.fromkeys(SHARE_MUTANTS, sharing_workload),
    **dict.fromkeys(LOOK_UP_MUTANTS, look_up_workload),
    "a lost broker stays in the routes": spare_workload,
    "held pulls are notified for 45 s": spare_workload,
    "a start delivers what waits for its time late": far_workload,
    "a held pull that has passed messages isn't notified": filtered_workload,
    "offsets of broadcasting members are never written": kind_workload("broadcast"),
    "recalls are always refused": kind_workload("timed"),
    "messages with a key go to any queue": spare_workload,
    "queues that can't be written to are written to": administered_workload,
    "offsets are always reset to the first message": administered_workload,
}
"""What is too rare in the swarm; the others are found there."""


LONG_HOURS = 0.1
LONG = (
    leaving_workload, silent_workload, returning_workload, spare_workload, far_workload, administered_workload,
    *LEANS_OF_REPLICAS.values(),
)  # fmt: skip
"""Those need time: a member is out of its group after two minutes."""


def hours_for(name: str) -> float:
    """Return how long a mutant is looked for in a run."""
    return LONG_HOURS if workload_for(name) in LONG else HOURS


def workload_for(name: str) -> WorkloadMaker:
    """Return where a mutant is looked for."""
    return LEANS.get(name, hard_workload)


def played(name: str, seed: int, stops_early: bool = False) -> RunOutcome:
    """Play a seed with a mutant in place of what it is a variant of."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        return play(workload_for(name), Play(seed, hours_for(name), stops_early=stops_early))


def find(name: str, seeds: range) -> Found | None:
    """Return what finds a mutant first, and nothing without it; None: none of these seeds does."""
    for seed in seeds:
        outcome = played(name, seed)
        if outcome.violations and play(workload_for(name), Play(seed, hours_for(name))).passed:
            violation = outcome.violations[0]
            return Found(name, seed, violation.checker, violation.words)
    return None


def is_still_found(found: Found) -> tuple[Found, bool]:
    """Play a known seed again, and when the program has changed since, a few others."""
    seeds = (found.seed, *range(1, OTHERS + 1))
    return found, any(not played(found.mutant, seed, stops_early=True).passed for seed in seeds)


def known() -> dict[str, Found]:
    """Return what was found last, by mutant."""
    rows = json.loads(KNOWN.read_text()) if KNOWN.exists() else []
    return {row["mutant"]: Found(**row) for row in rows}


def keep(found: list[Found]) -> None:
    """Write down what was found, in the order of the mutants."""
    order = list(MUTANTS)
    rows = sorted(found, key=lambda one: order.index(one.mutant))
    KNOWN.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
