"""`python -m tests.mqadmin`: see the package. Exit code 1: a command did not do what it is for."""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace

from staticfire.cluster import Cluster
from tests.mqadmin.calls import AFTER, BEFORE, DURING, GROUP, MESSAGES, OURS, PRODUCERS, TOPIC, Call, Facts
from tests.mqadmin.java import Admin, members
from tests.mqadmin.ours import our_member

PAUSE_S = 1
# Before a command is asked again.


class Run:
    """Plays calls, prints a line for each, and counts what failed."""

    def __init__(self, admin: Admin, facts: Facts) -> None:
        self._admin = admin
        self.facts = facts
        self.calls = 0
        self.failed = 0

    def play(self, calls: Sequence[Call]) -> None:
        for call in calls:
            begin_s = time.monotonic()
            complaint = self._complaint(call)
            while complaint and time.monotonic() < begin_s + call.within_s:
                time.sleep(PAUSE_S)  # house: mqadmin can only be asked again
                complaint = self._complaint(call)
            self.calls += 1
            self.failed += bool(complaint)
            said = "FAILED" if complaint else "ok"
            took_s = time.monotonic() - begin_s
            print(f"{call.arguments.split()[0]:<24} {said:<7} {took_s:5.1f} s  {complaint}".rstrip(), flush=True)

    def _complaint(self, call: Call) -> str:
        return call.complaint(self._admin.run(call.filled(self.facts)), self.facts)


def main() -> int:
    with Cluster(brokers=2) as cluster, tempfile.TemporaryDirectory() as folder:
        (broker, address), (_, other_address) = sorted(cluster.addresses.items())
        with Admin(cluster.namesrv, folder) as admin:
            run = Run(admin, Facts(cluster.namesrv, broker, address, other_address))
            run.play(BEFORE)
            with (
                our_member(cluster.namesrv, TOPIC, OURS) as client_id,
                members(cluster.namesrv, folder, [TOPIC, PRODUCERS, GROUP], MESSAGES) as first,
            ):
                run.facts = replace(run.facts, client_id=client_id, **first._asdict())
                run.play(DURING)
            run.play(AFTER)
    print(f"mqadmin: {run.calls} calls, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
