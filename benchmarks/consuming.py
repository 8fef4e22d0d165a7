"""Start a consumer's process and talk to it. Neither it nor the load is pinned: three processes share the cores.

A pinned broker stays on its core; the kernel schedules the others on free cores, as it does for any program.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import machine
from benchmarks.servers import ROOT, STOP_S_MAX, environment


class ConsumerProcess:
    """A process of `benchmarks.consumer` that is ready."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._process = process
        self._input, self._output = process.stdin, process.stdout

    @property
    def output(self) -> int:
        """The file descriptor of its output."""
        return self._output.fileno()

    def tell(self, word: object) -> None:
        """Send it a command."""
        self._input.write(f"{word}\n")
        self._input.flush()

    def hear(self) -> str:
        """Wait for a line of its output."""
        line = self._output.readline().strip()
        if not line:
            raise SystemExit(f"bench: the consumer has ended with exit code {self._process.wait()}")
        return line

    def ask(self, word: object) -> int:
        """Send it a command, and wait for a number."""
        self.tell(word)
        return int(self.hear())


@contextmanager
def consumer_process(task: str, namesrv: str, topic: str) -> Iterator[ConsumerProcess]:
    """Run a consumer. Meanwhile this process may use all cores."""
    own_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, machine.ALL_CORES)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.consumer", task, namesrv, topic],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        consumer = ConsumerProcess(process)
        if consumer.hear() != "ready":
            raise SystemExit("bench: the consumer isn't ready")
        yield consumer
    finally:
        os.sched_setaffinity(0, own_cores)
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
