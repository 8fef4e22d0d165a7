"""Masters and slaves of some seeds: how many slaves, whether sends wait for them, and their faults."""

from dataclasses import replace
from random import Random
from typing import Any

from staticfire.simulation.workload.description import Workload
from staticfire.simulation.workload.strikes import LASTING, REPLICA_STRIKES, SET_STRIKES

# The share of seeds with slaves; of these, in which sends wait for copies, and in which slaves take over by themselves.
REPLICATED_SHARE, SYNC_SHARE, FAILS_OVER_SHARE = 0.15, 0.6, 0.85
BROKERS_MAX = 2
# The probability of each fault of replicas.
STRIKE_SHARE = 0.6
# The share of these seeds in which several things happen to a broker at once.
SET_SHARE = 0.5
EVERY_S_MIN = 10.0


def with_replicas(chance: Random, workload: Workload, share: float = REPLICATED_SHARE) -> Workload:
    """Return the workload with slaves, or as it is."""
    if chance.random() >= share:
        return workload
    brokers, nemesis = workload.brokers, workload.nemesis
    settings: dict[str, Any] = {**brokers.settings, "slave_sync_period": chance.choice((500, 1_000, 10_000))}
    replicas = chance.choice((1, 1, 2))
    if chance.random() < SYNC_SHARE:
        settings |= {
            "broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": chance.choice((300, 1_000, 3_000)),
        }  # fmt: skip
        if chance.random() < 0.2:
            settings["min_in_sync_replicas"] = 2
        if chance.random() < 0.2:
            settings["all_ack_in_sync_state_set"] = True
    # A machine that is gone for good is one of a broker without slaves, and settings are those of one machine.
    usual = [kind for kind in nemesis.kinds if kind not in LASTING or "broker" not in kind]
    usual = [kind for kind in usual if kind != "change settings"]
    further = [kind for kind in REPLICA_STRIKES if chance.random() < STRIKE_SHARE] if usual else []
    every_s = max(EVERY_S_MIN, nemesis.every_seconds)
    fails_over = chance.random() < FAILS_OVER_SHARE
    if usual and chance.random() < SET_SHARE:
        further += [kind for kind in SET_STRIKES if chance.random() < STRIKE_SHARE]
    return replace(
        workload,
        brokers=replace(
            brokers, count=min(BROKERS_MAX, brokers.count), settings=settings, replicas=replicas,
            fails_over=fails_over,
        ),
        nemesis=replace(nemesis, may=(*usual, *further), every_seconds=every_s),
    )  # fmt: skip
