"""A workload that takes a moment, of everything a bit."""

from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Transactions, Workload

HOURS = 0.005

WORKLOAD = Workload(
    brokers=Brokers(2, settings={"flush_disk_type": "SYNC_FLUSH"}),
    topics=[Topic("orders", queues=2), Topic("payments", queues=1)],
    producers=[
        Producers("orders", per_second=2, keys=5),
        Producers("payments", per_second=0.5, transactions=Transactions(0.6, 0.2)),
    ],
    groups=[
        Group("billing", ["orders", "payments"], members=2, fails=0.05),
        Group("shipping", "orders", members=2, ordered=True),
    ],
    nemesis=Nemesis(every_seconds=4, lasts_seconds=(0.1, 5)),
)


def outcome_of(seed: int) -> RunOutcome:
    return play(WORKLOAD, Play(seed, HOURS))


def reported(seed: int) -> str:
    """All that is to be the same on any machine."""
    outcome = outcome_of(seed)
    return f"{outcome} {outcome.virtual_ms} {outcome.states}"
