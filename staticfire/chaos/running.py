"""One run of the program: a new cluster, the faults of a plan, and what the brokers saw.

The program is a process group of its own, so that nothing of it is left running, and its output goes to a file.
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING

from staticfire.chaos.connections import connections
from staticfire.chaos.evidence import Evidence, QueuePlace, committing_in, since_reset
from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.member import CLIENT_ID
from staticfire.chaos.planned_fault import PlannedFault
from staticfire.chaos.settling_time import SettlingTime
from staticfire.chaos.stored import StoredMessages, read_left, read_stored
from staticfire.chaos.topics import WantedTopic, create_topics
from staticfire.chaos.usage import is_plain
from staticfire.client import ClientSettings, MessageQueue
from staticfire.cluster.cluster import Cluster
from staticfire.launch.environment import environment_of
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.live import live_machine
from staticfire.runtime.service import pause_between_looks

if TYPE_CHECKING:
    from staticfire.cluster.async_cluster import AsyncCluster

# How long a program has to stop after SIGTERM.
STOP_S = 5.0
LIMIT_S, SETTLE_S = 600.0, 10.0
"""How long a run takes at most, and the time to consume the rest after it, if no flag changes that."""
LOOK_MS = 20
SETTLE_LOOK_MS = 250
OUTPUT_BYTES_MAX = 64 * 1024
SETTINGS = {
    # All requests of a run are evidence.
    "recordedRequestsBytesMax": str(256 * 1024 * 1024),
    # A lost end of a transaction is checked while the program still runs.
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "1000",
}


@dataclass(frozen=True)
class TriedProgram:
    """What is run, and how."""

    command: tuple[str, ...]
    limit_s: float
    settle_s: float = SETTLE_S
    at_rest: str = ""
    """A condition as a shell command: it runs after the program, while the cluster still does."""
    brokers: int = 1
    namesrv_port: int = 0
    broker_port: int = 0
    grpc: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    shows_output: bool = False
    output_fd: int | None = None
    """Where the output of the commands is shown; None: on stdout."""
    topics: tuple[WantedTopic, ...] = ()
    """They are created before the program starts."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The environment of the program, to which the addresses of the cluster are added."""
    at_rest_limit_s: float = LIMIT_S
    """The time for the command of `at_rest`. `limit_s` may be shortened to what the program needed in calm weather."""


class Stopped(Exception):
    """The user has stopped all runs."""


async def run_program(program: TriedProgram, faults: Sequence[PlannedFault], stop: asyncio.Event) -> Evidence:
    """Run the program once on a new cluster. If the user stops it, the evidence is what was seen until then.

    Raises: Stopped (before the program began), StaticfireError (the cluster failed), OSError.
    """
    if stop.is_set():
        raise Stopped
    cluster = Cluster(
        program.brokers,
        {**SETTINGS, **program.settings},
        isolation="process",
        namesrv_port=program.namesrv_port,
        broker_port=program.broker_port,
        grpc=program.grpc,
    )
    async with cluster as running:
        settings = cluster._thread_and_object()[1].client_settings
        async with connections(settings) as pool:
            tails = JournalTails(pool, running.addresses, [CLIENT_ID])
            return await ProgramRun(program, running, settings, tails, faults, stop).evidence()


class ProgramRun:
    """One run on a cluster that is ready."""

    def __init__(
        self,
        program: TriedProgram,
        cluster: "AsyncCluster",
        settings: ClientSettings,
        journals: JournalTails,
        faults: Sequence[PlannedFault],
        stop: asyncio.Event,
    ) -> None:
        self._program = program
        self._cluster = cluster
        self._settings = settings
        self._journals = journals
        self._injection = FaultInjection(cluster, journals, faults, settings)
        self._stop = stop
        self._clock = live_machine().clock

    async def evidence(self) -> Evidence:
        await create_topics(self._cluster.namesrv, self._program.topics, self._settings)
        await self._injection.prepare()
        if self._stop.is_set():
            raise Stopped
        with tempfile.TemporaryFile() as output:
            began_ms = self._clock.wall_ms()
            process = subprocess.Popen(  # noqa: ASYNC220 (it takes milliseconds, and the cluster has its own thread)
                self._program.command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=self._program.output_fd if self._program.shows_output else output,
                stderr=None if self._program.shows_output else subprocess.STDOUT,
                start_new_session=True,
            )
            left: dict[tuple[str, str], int] = {}
            limit_ms = 0
            try:
                self._injection.start()
                exit_code = await self._wait(process, self._program.limit_s)
                if exit_code is None:
                    limit_ms = self._clock.wall_ms()
                await self._injection.finish()
                if exit_code is None and not self._stop.is_set():
                    left = await self._settled()
            finally:
                await self._injection.stop()
                await self._end(process)
            evidence = await self._gathered(exit_code, began_ms, left, output)
            return replace(evidence, limit_ms=limit_ms)

    async def _wait(self, process: "subprocess.Popen[bytes]", limit_s: float) -> int | None:
        """Wait for the end of a command; return its exit code, or None at the limit or if the user has stopped it."""
        until_ms = self._clock.uptime_ms() + limit_s * 1_000
        while process.poll() is None:
            if self._stop.is_set() or self._clock.uptime_ms() >= until_ms:
                return None
            await pause_between_looks(LOOK_MS)
        return process.returncode

    async def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """End the program and everything that it has started."""
        until_ms = self._clock.uptime_ms() + STOP_S * 1_000
        _signal(process, signal.SIGTERM)
        while process.poll() is None and self._clock.uptime_ms() < until_ms:
            await pause_between_looks(LOOK_MS)
        _signal(process, signal.SIGKILL)
        process.wait()

    def _environment(self) -> dict[str, str]:
        return environment_of(
            self._program.environment,
            self._cluster.namesrv,
            control=self._cluster.control,
            grpc=self._cluster.grpc_endpoint if self._program.grpc else "",
            tls=bool(self._settings.tls),
            chaos=True,
        )

    # -- what the brokers saw ------------------------------------------------------------------------------------

    async def _settled(self) -> dict[tuple[str, str], int]:
        """Wait until the groups of a program that still runs have consumed everything.

        Return earlier if nothing was consumed during the settling time.
        """
        settling = SettlingTime(self._program.settle_s * 1_000)
        while True:
            left = await self._left()
            if settling.is_over(sum(left.values()), self._clock.uptime_ms()) or self._stop.is_set():
                return left
            await pause_between_looks(SETTLE_LOOK_MS)

    async def _left(self) -> dict[tuple[str, str], int]:
        """Return how many messages of each topic a group hasn't committed, for groups that commit offsets."""
        await self._journals.read()
        events, requests = self._journals.in_order()
        evidence = Evidence(events, requests, StoredMessages(), None)
        committing = committing_in(requests)
        pairs = sorted(
            {
                (group, place.topic)
                for group, place in evidence.deliveries
                if group in committing and is_plain(place.topic)
            }
        )

        def claimed(group: str, queue: MessageQueue) -> int:
            return evidence.claimed.get((group, QueuePlace(*queue)), 0)

        return await read_left(self._cluster.namesrv, pairs, claimed, self._settings)

    async def _gathered(
        self, exit_code: int | None, began_ms: int, left: dict[tuple[str, str], int], output: IO[bytes]
    ) -> Evidence:
        ended_ms = self._clock.wall_ms()
        is_checked = bool(self._program.at_rest) and not self._stop.is_set()
        at_rest = await self._at_rest() if is_checked else None
        was_stopped = self._stop.is_set()
        await self._journals.read()
        events, requests, earlier = since_reset(*self._journals.in_order())
        stored = await self._stored()
        return Evidence(
            events, requests, stored, exit_code, began_ms, ended_ms, self._injection.injected,
            frozenset(self._journals.gaps), left, at_rest, _tail(output), earlier, was_stopped,
            at_rest_is_late=is_checked and at_rest is None and not was_stopped,
        )  # fmt: skip

    async def _stored(self) -> StoredMessages:
        try:
            return await read_stored(self._cluster.namesrv, self._settings)
        except StaticfireError as error:
            return StoredMessages(unread={"": str(error)})

    async def _at_rest(self) -> int | None:
        """Return the exit code of the condition's command; None if the user has stopped it, or at its limit."""
        # It is a shell command of the user, not data of others.
        command = ["/bin/sh", "-c", self._program.at_rest]
        process = subprocess.Popen(  # noqa: ASYNC220 (as above)
            command,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._program.output_fd,
            start_new_session=True,
        )
        try:
            return await self._wait(process, self._program.at_rest_limit_s)
        finally:
            await self._end(process)


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Send a signal to the program's process group, which may outlive the program."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # Nothing of it is left.


def _tail(output: IO[bytes]) -> str:
    """Return the end of the program's output."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT_BYTES_MAX))
    return output.read().decode("utf-8", "replace")
