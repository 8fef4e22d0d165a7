"""The swarm with slaves in every seed."""

from staticfire.simulation.runs.swarm import replicated_workload

workload = replicated_workload
