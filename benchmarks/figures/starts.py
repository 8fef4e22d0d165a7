"""`staticfire up` as a user runs it: the time until its ready line, and the memory of its servers then.

Nothing is pinned here, since a user's machine lets it use all cores.
"""

import signal
import subprocess
import sys
import tempfile
import time

from benchmarks.figures import Stand, Values
from benchmarks.machine import descendants, pss_mib
from benchmarks.servers import ROOT, STOP_S_MAX, environment

COMMAND = [
    "-m", "staticfire", "up", "--namesrv-port", "0", "--broker-port", "0", "--control-port", "0", "--no-grpc", "--dir",
]  # fmt: skip
PROGRAMS = ("staticfire.nameserver", "staticfire.broker")
SETTLE_S = 0.5


class Starts:
    """ready_ms, idle_pss_mib."""

    name = "starts"
    keys = ("ready_ms", "idle_pss_mib")

    def measure(self, stand: Stand) -> Values:
        with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder:
            started = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, *COMMAND, folder], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment()
            )
            try:
                ready_s = _wait_for_ready(process, started)
                time.sleep(SETTLE_S)
                programs = [pid for pid, command in descendants(process.pid) if _is_server(command)]
                if len(programs) != len(PROGRAMS):
                    raise SystemExit(f"bench: starts: {len(programs)} servers below `staticfire up`, not {PROGRAMS}")
                memory_mib = sum(pss_mib(pid) for pid in programs)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_S_MAX)
        return {"ready_ms": ready_s * 1000, "idle_pss_mib": memory_mib}


def _is_server(command: str) -> bool:
    return any(f" {program} " in command for program in PROGRAMS)


def _wait_for_ready(process: "subprocess.Popen[str]", started: float) -> float:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready "):
            return time.perf_counter() - started
    raise SystemExit(f"bench: starts: `staticfire up` ended with exit code {process.wait()}")
