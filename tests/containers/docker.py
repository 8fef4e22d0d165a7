"""Docker and docker-compose, for tests: a project under a name and on ports of its own, gone afterwards in any case.

Nothing is waited for by time: the engine tells its events, and a watchdog ends who waits for one that doesn't come.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.cli.commands import ROOT
from tests.ports import free_ports

IMAGE = "staticfire:test"
TIMEOUT_S = 120
EVENT_TIMEOUT_S = 60
NAMES = ("rmqnamesrv", "rmqbroker-b", "rmqbroker", "rmqproxy")
NAMED = re.compile(rf"\b({'|'.join(NAMES)})\b")


def docker(*arguments: str, check: bool = True, timeout_s: float = TIMEOUT_S) -> str:
    """Run a command of Docker's; return what it says. Fails the test, in Docker's words, when it fails."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
    )
    if check and done.returncode != 0:
        pytest.fail(f"docker {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout if done.stdout or check else done.stderr


def compose_command() -> list[str]:
    """Return how compose is called here."""
    return ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]


def inspect(container: str, template: str) -> str:
    return docker("inspect", "--format", "{{" + template + "}}", container).strip()


class Project:
    """A compose file that runs as a project. Containers go by the names of the file, with the project's in front."""

    def __init__(
        self, name: str, folder: Path, text: str, network: str = "default", files: Mapping[str, str] | None = None
    ) -> None:
        """`text`: a compose file as people write it; names, ports and the image are replaced. `files`: beside it."""
        self.name = name
        self.network = f"{name}_{network}"
        self._ports = dict(zip(("9876", "10909", "10911", "10929", "10931", "8081"), free_ports(), strict=True))
        self.folder = folder
        self._names = [found[0] for found in NAMED.finditer(text)]
        text = NAMED.sub(lambda found: self.container(found[0]), self.with_own_ports(text))
        text = text.replace("context: .", f"context: {ROOT}")
        self._file = folder / "docker-compose.yml"
        self._file.write_text(re.sub(r"image: \S+", f"image: {IMAGE}", text))
        for file, lines in (files or {}).items():
            (folder / file).write_text(self.with_own_ports(lines))
        self._began = server_time()

    def with_own_ports(self, text: str) -> str:
        """Return a text with our ports in place of RocketMQ's, but where nameserver and proxy are inside."""
        for inside in ("9876", "8081"):
            text = text.replace(f"{inside}:{inside}", f"{self._ports[inside]}:{inside}")
        return re.sub(r"\b(10909|10911|10929|10931)\b", lambda found: str(self._ports[found[0]]), text)

    @property
    def namesrv(self) -> str:
        """The nameserver's address on the host."""
        return f"127.0.0.1:{self._ports['9876']}"

    def port(self, number: int) -> int:
        """Return the port that stands for one of the file."""
        return int(self._ports[str(number)])

    def container(self, name: str) -> str:
        return f"{self.name}-{name}"

    def compose(self, *arguments: str) -> str:
        command = [*compose_command(), "-p", self.name, "-f", str(self._file), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def up(self) -> None:
        """Bring it up, and wait until every service is healthy."""
        self._began = server_time()
        self.compose("up", "-d", "--no-build")
        self.until_healthy(*self._names)

    def start(self, name: str) -> None:
        """Start a container that has ended, and wait until it is healthy."""
        self._began = server_time()
        docker("start", self.container(name))
        self.until_healthy(name)

    def until_healthy(self, *names: str) -> None:
        """Wait until these containers are, since the last start."""
        missing = {self.container(name) for name in names}
        with self.events("health_status") as events:
            for event in events:
                if event["status"] == "health_status: healthy":
                    missing.discard(event["Actor"]["Attributes"]["name"])
                if not missing:
                    return
        pytest.fail(f"not healthy: {missing}\n{self.logs()}")

    @contextmanager
    def events(self, kind: str) -> Iterator[Iterator[dict[str, Any]]]:
        """Give the events of a kind since the last start, those to come included, for a while."""
        command = ["docker", "events", "--since", self._began, "--format", "{{json .}}", "--filter", f"event={kind}"]
        filters = ["--filter", f"label=com.docker.compose.project={self.name}"]
        process = subprocess.Popen([*command, *filters], stdout=subprocess.PIPE, text=True)
        watchdog = Timer(EVENT_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            yield map(json.loads, process.stdout)
        finally:
            watchdog.cancel()
            process.kill()
            process.communicate()

    def stop_ms(self, name: str) -> int:
        """Stop a container by SIGTERM; return how long it took from the signal to its end."""
        self._began = server_time()
        docker("stop", self.container(name))
        with self.events("kill") as kills, self.events("die") as ends:
            return (int(next(ends)["timeNano"]) - int(next(kills)["timeNano"])) // 1_000_000

    def run(self, *command: str, flags: tuple[str, ...] = ()) -> str:
        """Run a command in another container of the network; return what it says."""
        return docker("run", "--rm", "--network", self.network, *flags, IMAGE, *command)

    def logs(self) -> str:
        names = docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={self.name}").split()
        return "\n".join(docker_log(name) for name in names)

    def leftovers(self) -> str:
        """Return what there is of this project: containers, volumes, networks."""
        own = ["-q", "--filter", f"label=com.docker.compose.project={self.name}"]
        return docker("ps", "-a", *own) + docker("volume", "ls", *own) + docker("network", "ls", *own)

    def remove(self) -> None:
        self.compose("down", "-v", "--remove-orphans", "--timeout", "3")


def docker_log(container: str) -> str:
    """Return what a container has written, to both."""
    done = subprocess.run(["docker", "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode()


def until_logged(container: str, words: str) -> None:
    """Wait until a container has written these words."""
    process = subprocess.Popen(
        ["docker", "logs", "--follow", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    watchdog = Timer(EVENT_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        assert any(words in line for line in process.stdout), f"it never said {words!r}"
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def server_time() -> str:
    """Return the time of the machine that the engine runs on, which need not be this one."""
    return docker("info", "--format", "{{.SystemTime}}").strip()


def run_to_end(*arguments: str) -> tuple[int, str]:
    """Run a container to its end; return its exit code and what it said."""
    return ended("run", "--rm", *arguments)


def ended(*arguments: str) -> tuple[int, str]:
    """Run a command of Docker's that may fail; return its exit code and what it said."""
    done = subprocess.run(
        ["docker", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout
