"""The swarm without its further kinds: what a seed's number stood for before there were any. See failed.json."""

from staticfire.simulation.runs.swarm import plain_workload

workload = plain_workload
