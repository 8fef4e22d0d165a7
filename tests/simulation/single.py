"""The swarm without slaves: what a seed's number meant before there were any. See failed.json."""

from staticfire.simulation.runs.swarm import single_workload

workload = single_workload
