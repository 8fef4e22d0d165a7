"""Simulated clusters: virtual hours per minute of one core, of three brokers, six consumers and four producers.

Idle, and with ten messages a second that two groups consume. Process time, checkers and observers included: what
`staticfire simulate` would need.
"""

from benchmarks.figures import Stand, Values
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Workload

IDLE_HOURS, BUSY_HOURS = 2.0, 0.2
PER_SECOND = 10.0
NEVER = 1e-9
# Messages a second.


def cluster(per_second: float) -> Workload:
    """Return three brokers and ten clients."""
    return Workload(
        brokers=Brokers(3),
        topics=[Topic("orders", queues=4)],
        producers=[Producers("orders", per_second=per_second, clients=4, name="web")],
        groups=[Group("billing", "orders", members=3), Group("shipping", "orders", members=3, ordered=True)],
        nemesis=Nemesis(may=()),
    )


class Simulation:
    """simulated: hours per minute, idle and busy."""

    name = "simulated"
    keys = ("simulated_idle_hours_per_min", "simulated_busy_hours_per_min")

    def measure(self, stand: Stand) -> Values:
        part = 0.25 if stand.is_quick else 1.0
        return {
            "simulated_idle_hours_per_min": _hours_per_min(NEVER, IDLE_HOURS * part),
            "simulated_busy_hours_per_min": _hours_per_min(PER_SECOND, BUSY_HOURS * part),
        }


def _hours_per_min(per_second: float, hours: float) -> float:
    """Return it for a run of so many hours; what comes before and after them costs time, and counts for nothing."""
    outcome = play(cluster(per_second), Play(seed=1, hours=hours))
    if not outcome.passed:
        raise SystemExit(f"bench: simulated: {outcome}")
    return hours / outcome.cpu_s * 60
