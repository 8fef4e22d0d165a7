"""staticfire as a command, for tests: started, waited for, and gone at the end whatever happens."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from staticfire.cluster.cluster import Cluster
from tests.cli.preloaded import preloaded

ROOT = Path(__file__).resolve().parent.parent.parent
FREE_PORTS = ["--namesrv-port", "0", "--broker-port", "0", "--control-port", "0", "--no-grpc"]
TIMEOUT_S = 100  # A busy machine takes many times longer than a quiet one. pytest gives up after 120 s.


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "staticfire", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return ours without what would change how staticfire behaves."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("STATICFIRE_", "NAMESRV_"))}
    return {**kept, **more}


def call(*arguments: str, text: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    if not _needs_new_python(more):
        return preloaded().call(arguments, text, environment(**more), TIMEOUT_S)
    return subprocess.run(
        command(*arguments),
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        env=environment(**more),
        check=False,
    )


def mqadmin(cluster: Cluster, *arguments: str) -> list[str]:
    """Run a command of mqadmin, which must succeed; return its lines."""
    done = call("mqadmin", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _needs_new_python(more: Mapping[str, str]) -> bool:
    """Tell whether the environment changes what an import does."""
    return (
        any(name.startswith(("PYTHON", "STATICFIRE_PURE")) for name in more) or "COVERAGE_PROCESS_START" in os.environ
    )


class Up:
    """A running `staticfire up`, or another command that says when it is ready."""

    def __init__(self, *arguments: str, ready: str = "ready ", **more: str) -> None:
        self.process = subprocess.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(**more),
        )
        self._ready = ready
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(self._ready):
                return self
        _, err = self.process.communicate(timeout=TIMEOUT_S)
        raise AssertionError(f"ended before it was ready: {self.lines} {err}")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=TIMEOUT_S)
        finally:
            self.process.kill()

    def reported(self, name: str) -> str:
        """Return what the ready line says of a name."""
        found = re.search(rf"\b{name}=(\S+)", self.lines[-1])
        assert found is not None, self.lines
        return found[1]

    def pids(self) -> dict[str, int]:
        """Return the processes of the cluster by name."""
        processes = get(self.reported("CONTROL"))[1]["processes"]
        return {process["name"]: process["pid"] for process in processes}

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return exit code and stderr. Returns when every process that has its stdout is gone."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return exit code and stderr, without the dashboard's address, which every `up` prints."""
        _, err = self.process.communicate(timeout=TIMEOUT_S)
        err = re.sub(r"^staticfire: dashboard http://\S+\n", "", err, flags=re.MULTILINE)
        return self.process.returncode, "".join(f"{line}\n" for line in without_second_port(err))


def without_second_port(err: str) -> list[str]:
    """Return the lines of stderr, without a broker's warning that its second port is taken.

    The system chose the broker's port. The second port is two below it, where another test's process may listen.
    """
    return [line for line in err.splitlines() if "event=vip_port_unavailable" not in line]


def get(url: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """Ask over HTTP; return status and JSON."""
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def one_line(text: str) -> str:
    """Return the only line of a text."""
    lines = without_second_port(text)
    assert len(lines) == 1, text
    return lines[0]
