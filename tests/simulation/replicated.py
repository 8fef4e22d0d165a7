"""The swarm with slaves in every seed."""

from random import Random

from staticfire.simulation.runs.swarm import single_workload
from staticfire.simulation.runs.swarm_replicas import with_replicas
from staticfire.simulation.workload import Workload


def workload(chance: Random) -> Workload:
    """Return the workload of a seed, with slaves in any case."""
    made = single_workload(chance)
    return with_replicas(Random(chance.getrandbits(64)), made, share=1.0)
