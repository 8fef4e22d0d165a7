"""`Cluster()` in a test: the time to enter and leave `with`, cold and warm, and the time of `reset()`.

Cold means the first cluster of a program; so it is measured in a process of its own. Nothing is pinned.
"""

import subprocess
import sys

import msgspec

from benchmarks.figures import Stand, Values
from benchmarks.servers import ROOT, environment

ROUNDS = 7
PROGRAM = """
import sys, time, json
from statistics import median
from staticfire import Cluster
def timed(of):
    at = time.perf_counter(); of(); return (time.perf_counter() - at) * 1000
isolation, rounds = sys.argv[1], int(sys.argv[2])
enters, resets, exits = [], [], []
for _ in range(rounds):
    cluster = Cluster(isolation=isolation)
    enters.append(timed(cluster.__enter__))
    resets.append(timed(cluster.reset))
    exits.append(timed(lambda: cluster.__exit__(None, None, None)))
print(json.dumps({"cold": enters[0], "enter": median(enters[1:] or enters), "reset": median(resets[1:] or resets),
                  "exit": median(exits[1:] or exits)}))
"""


class Clusters:
    """cluster_cold_ms, cluster_enter_ms, cluster_exit_ms, cluster_reset_ms; cluster_process_ms: with processes."""

    name = "clusters"
    keys = ("cluster_cold_ms", "cluster_enter_ms", "cluster_exit_ms", "cluster_reset_ms", "cluster_process_ms")

    def measure(self, _stand: Stand) -> Values:
        thread, processes = _measured("thread", ROUNDS), _measured("process", 1)
        return {
            **{f"cluster_{what}_ms": took_ms for what, took_ms in thread.items()},
            "cluster_process_ms": processes["cold"],
        }


def _measured(isolation: str, rounds: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, isolation, str(rounds)],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, float])
