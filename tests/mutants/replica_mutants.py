"""What somebody could get wrong about masters and slaves, and the workloads in which it is looked for."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from staticfire.broker.changes import Changes
from staticfire.broker.replication import member
from staticfire.broker.replication.epochs import cut
from staticfire.broker.replication.follower import ReplicationFollower
from staticfire.broker.replication.member import ReplicationMember
from staticfire.broker.replication.state_copy import StateCopy
from staticfire.broker.replication.waiting_sends import SendsAwaitingCopies
from staticfire.failover import decisions
from staticfire.failover.replica import Replica
from staticfire.failover.watch import _Set
from staticfire.protocol.requests.replication import Epoch, Joined
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Workload
from staticfire.simulation.workload.loading import WorkloadMaker

Patch = pytest.MonkeyPatch
SYNC: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 500}


def _copies_not_awaited(patch: Patch) -> None:
    patch.setattr(SendsAwaitingCopies, "add", lambda _, __, settlements: settlements)


def _epoch_given_twice(patch: Patch) -> None:
    def begun(epochs: Sequence[Epoch], _: int, position: int, __: int) -> list[Epoch]:
        return [*cut(epochs, position), Epoch(epochs[-1].epoch, position)]

    patch.setattr(member, "begun", begun)


def _empty_master_begins(patch: Patch) -> None:
    async def never(_: ReplicationMember, __: int = -1) -> bool:
        return False

    patch.setattr(ReplicationMember, "is_replaced", never)


def _tail_not_cut(patch: Patch) -> None:
    prepare = ReplicationFollower._is_prepared

    async def is_prepared(self: ReplicationFollower, joined: Joined) -> bool:
        if self._store.max_position and not joined.is_anew:
            joined.start_position = self._store.max_position
        return await prepare(self, joined)

    patch.setattr(ReplicationFollower, "_is_prepared", is_prepared)


def _least_of_the_log(patch: Patch) -> None:
    progress = decisions.progress_of

    def least(replica: Replica) -> tuple[int, int, int]:
        epoch, end_position, place = progress(replica)
        return -epoch, -end_position, place

    patch.setattr(decisions, "progress_of", least)


def _pops_after_copied_offsets_unknown(patch: Patch) -> None:
    take = StateCopy._take_offsets

    def take_offsets(self: StateCopy, log_position: int, table: dict[str, dict[int, int]]) -> None:
        take(self, log_position, table)
        self._tables.groups.offsets.copied_position = None

    patch.setattr(StateCopy, "_take_offsets", take_offsets)


def replicated_workload(
    may: Sequence[str], replicas: int = 1, every_s: float = 12.0, popped: bool = False, **settings: Any
) -> WorkloadMaker:
    """Return what makes workloads of one broker with slaves, and these faults."""

    def make(chance: Random) -> Workload:
        return Workload(
            brokers=Brokers(1, {"message_delay_level": "1s 2s 3s", **settings}, replicas),
            topics=[Topic("orders", chance.choice((1, 4)))],
            producers=[Producers("orders", 8)],
            groups=[_slow_group() if popped else Group("billing", "orders", members=chance.choice((1, 2)))],
            nemesis=Nemesis(may, every_s, (1.0, 10.0)),
            settles_within_seconds=400.0,
        )

    return make


def _slow_group() -> Group:
    """Return a group that has popped much, and is late with it, when a master dies."""
    return Group("billing", "orders", popped=True, takes_ms=(50, 200), fails=0.3)


async def _not_copied(_: Changes) -> None:
    """Answer at once."""


REPLICA_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "sends don't wait for copies": _copies_not_awaited,
    "an epoch is given twice": _epoch_given_twice,
    "offsets aren't copied": lambda patch: patch.setattr(StateCopy, "_take_offsets", lambda *_: None),
    "a new master doesn't know the pops after its last copied offsets": _pops_after_copied_offsets_unknown,
    "any slave may take over": lambda patch: patch.setattr(_Set, "whole_needed", lambda _: 0),
    "a master with a new disk begins again": _empty_master_begins,
    "a topic is acknowledged before a slave has it": lambda patch: patch.setattr(Changes, "copied", _not_copied),
    "a slave removes nothing of its log": _tail_not_cut,
    "the slave with the least of the log takes over": _least_of_the_log,
}
LEANS_OF_REPLICAS: dict[str, WorkloadMaker] = {
    "sends don't wait for copies": replicated_workload(("hold copy", "kill master", "lose disk"), **SYNC),
    "an epoch is given twice": replicated_workload(("kill master", "fail over")),
    "offsets aren't copied": replicated_workload(("kill master",)),
    "a new master doesn't know the pops after its last copied offsets": replicated_workload(
        ("kill master",), popped=True, slave_sync_period=20_000
    ),
    "any slave may take over": replicated_workload(("hold and lose disk", "kill broker"), 2, every_s=5.0, **SYNC),
    "a master with a new disk begins again": replicated_workload(("lose disk",), **SYNC),
    "a topic is acknowledged before a slave has it": replicated_workload(
        ("change topics",), slave_sync_period=10_000, **SYNC
    ),
    "a slave removes nothing of its log": replicated_workload(("elect lagging",)),
    "the slave with the least of the log takes over": replicated_workload(("hold copy", "kill broker"), 2, **SYNC),
}
