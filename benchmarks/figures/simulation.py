"""Simulated clusters: virtual hours per minute of one core, for three brokers, six consumers and four producers.

Measured idle, and with ten messages per second that two groups consume. It is process time, including checkers and
observers, as `staticfire simulate` needs it.
"""

from benchmarks.figures import Stand, Values
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Workload

IDLE_HOURS, BUSY_HOURS = 2.0, 0.2
PER_SECOND = 10.0
# A rate in messages per second that produces none.
NEVER = 1e-9


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
    """Return the rate for a run of that many hours. Setup and teardown cost time, but don't count as hours."""
    outcome = play(cluster(per_second), Play(seed=1, hours=hours))
    if not outcome.passed:
        raise SystemExit(f"bench: simulated: {outcome}")
    return hours / outcome.cpu_s * 60
