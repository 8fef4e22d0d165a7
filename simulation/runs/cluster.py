"""The machines of a run and their programs (servers, members, producers), which may be started repeatedly."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import Admin
from staticfire.failover.replicas import ReplicaAdmin
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.delay_levels import DELAY_LEVELS_DEFAULT, DelayLevels
from staticfire.protocol.errors import StaticfireError, StorageError
from staticfire.protocol.requests.assignment import MODE_POP
from staticfire.runtime.service import Service
from staticfire.simulation.checkers.events import ProcessBegan, ProcessEnded, WentWrong
from staticfire.simulation.runs.consuming import MemberListener
from staticfire.simulation.runs.disk_trouble import DiskTrouble
from staticfire.simulation.runs.members import Member
from staticfire.simulation.runs.record import RunRecord, Seat
from staticfire.simulation.runs.replicas import ReplicaSets
from staticfire.simulation.runs.sending import SendingProgram
from staticfire.simulation.workload.description import SYNC_PERIOD_MS, Group, Producers, Workload
from staticfire.simulation.world.process import ProcessKilled
from staticfire.simulation.world.world import SimulatedWorld

NAMESERVER, OBSERVER = "nameserver", "observer"
NAMESRV = "10.0.0.1:9876"
# The pause between two attempts to start a program.
START_PAUSE_MS = 1_000
# The maximum number of attempts without a fault. During faults, starts are always retried.
START_TRIES_MAX = 120


class RunCluster:  # house: all machines of a run: one table, starts and ends
    """All machines by name, and which of them are up."""

    def __init__(self, world: SimulatedWorld, workload: Workload, record: RunRecord) -> None:
        self.world = world
        self.workload = workload
        self.record = record
        self.brokers: dict[str, Broker] = {}
        self.members: dict[str, Member] = {}
        self.programs: dict[str, SendingProgram] = {}
        self.lives: dict[str, int] = {}
        self.up: set[str] = set()
        self._stopping: set[str] = set()
        self.gone: set[str] = set()
        """Machines that never come back."""
        self.queues = {topic.name: topic.queues for topic in workload.topics}
        """The current number of queues of each topic, per broker."""
        self.was_forbidden: set[str] = set()
        """Topics and groups for which an administrator has forbidden something at some time."""
        if workload.brokers.replicas:  # While a broker has no master, no queue can be written.
            self.was_forbidden.update(self.queues)
        self.disks: dict[str, DiskTrouble] = {}
        self.faults_in_force = 0
        self.listener = MemberListener(world.run_for)
        self.started: list[Callable[[], None]] = []
        """Called when a process is up."""
        self._watches: set[asyncio.Task[None]] = set()
        self._starting: set[str] = set()
        self._late: list[asyncio.Task[None]] = []
        self._levels = DelayLevels.parse(
            str(workload.brokers.settings.get("message_delay_level", DELAY_LEVELS_DEFAULT))
        )
        self._makers: dict[str, Callable[[], Service]] = {}
        self._names: dict[str, str] = {}
        """Machine names by address."""
        self.replicas: ReplicaSets | None = None
        self.replica_admin: ReplicaAdmin | None = None
        """Both: None if no broker has slaves."""
        self._make_machines()
        if workload.brokers.replicas:
            self.replicas = ReplicaSets(world, workload.brokers, self.brokers, self.lives, self.up, record)
            self.started.append(self.replicas.look)

    def _make_machines(self) -> None:
        """Create a machine for each program."""
        self._add(NAMESERVER, "10.0.0.1", self._nameserver)
        for number, name in enumerate(self.workload.brokers.machines, 1):
            self._add(name, f"10.0.1.{number}", partial(self._broker, name))
            self.disks[name] = DiskTrouble(self.world, name)
        for group in self.workload.groups:
            for number in range(1, group.members + 1):
                name = f"{group.name}-{number}"
                self._add(name, f"10.0.3.{len(self._makers)}", partial(self._member, name, group))
        for producers in self.workload.producers:
            for number in range(1, producers.clients + 1):
                name = f"{producers.program}-{number}"
                self._add(name, f"10.0.4.{len(self._makers)}", partial(self._program, name, producers))
        self.world.machine(OBSERVER, "10.0.0.9")

    def _add(self, name: str, host: str, maker: Callable[[], Service]) -> None:
        self._makers[name] = maker
        self._names[host] = name
        self.world.machine(name, host)

    @property
    def names(self) -> list[str]:
        """The machines of all programs."""
        return list(self._makers)

    def member_of(self, client_id: str) -> str:
        """Return the machine of a client id; the id itself if there is none."""
        return self._names.get(client_id.partition("@")[0], client_id)

    @property
    def brokers_there(self) -> list[str]:
        """All brokers except those that are gone for good."""
        return [name for name in self.workload.brokers.names if name not in self.gone]

    # -- programs ----------------------------------------------------------------------------------------------------

    def _seat(self, name: str) -> Seat:
        return Seat(self.world.machine(name), NAMESRV, self.world.seed, self.record)

    def _nameserver(self) -> Service:
        return Nameserver(self.world.machine(NAMESERVER), NameserverSettings())

    def _broker(self, name: str) -> Service:
        brokers = self.workload.brokers
        chosen: dict[str, Any] = {
            "broker_name": brokers.set_of(name),
            "namesrv_addr": NAMESRV,
            "store_path_root_dir": "/store",
            "vip_port_enable": False,
            **({"slave_read_enable": True, "slave_sync_period": SYNC_PERIOD_MS} if brokers.replicas else {}),
            **brokers.settings,
            **self._role_of(name),
        }
        broker = self.brokers[name] = Broker(self.world.machine(name), BrokerSettings(**chosen))
        return broker

    def _role_of(self, machine: str) -> dict[str, Any]:
        """Return the settings that make a machine a slave."""
        brokers = self.workload.brokers
        number = brokers.machines_of(brokers.set_of(machine)).index(machine)
        return {"broker_role": "SLAVE", "broker_id": number} if number else {}

    def serving_brokers(self) -> dict[str, Broker]:
        """Return the brokers that are up, by name; of those with slaves, the machines that serve as masters."""
        if self.replicas is None:
            return {name: broker for name, broker in self.brokers.items() if name in self.up}
        machines = {name: self.replicas.serving(name) for name in self.workload.brokers.names}
        return {name: self.brokers[machine] for name, machine in machines.items() if machine in self.up}

    def _member(self, name: str, group: Group) -> Service:
        consumer = self.members[name] = self.listener.member(group, self._seat(name))
        return consumer

    def _program(self, name: str, producers: Producers) -> Service:
        program = self.programs[name] = SendingProgram(producers, self._seat(name), self._levels, self.was_forbidden)
        return program

    # -- starts and ends ---------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Start the servers, create topics and groups, start the members."""
        await self.start(NAMESERVER)
        for name in self.workload.brokers.machines:
            await self.start(name)
        if self.replicas is not None:
            self.replica_admin = self.replicas.begin(NAMESRV, OBSERVER)
        async with Admin(NAMESRV, machine=self.world.machine(OBSERVER)) as admin:
            await self.create_tables(admin)
        for group in self.workload.groups:
            if not group.joins_after_seconds:
                await self._join(group)

    async def create_tables(self, admin: Admin) -> None:
        """Create topics and groups, on all brokers."""
        for topic in self.workload.topics:
            await admin.create_topic(topic.name, queues=self.queues[topic.name])
        for group in self.workload.groups:
            await admin.create_group(group.name)
            for name in group.topics if group.popped else ():
                await admin.set_consume_mode(name, group.name, MODE_POP)

    async def _join(self, group: Group) -> None:
        for name in group.member_names:
            await self.start(name)

    async def _join_later(self, group: Group) -> None:
        await self.world.run_for(round(group.joins_after_seconds * 1_000))
        await self._join(group)

    async def late_groups(self) -> None:
        """Wait until the members of all groups have been started."""
        await asyncio.gather(*self._late)

    async def begin_traffic(self) -> None:
        """Start who sends; groups that join later do so from now on."""
        loop = asyncio.get_running_loop()
        self._late = [
            loop.create_task(self._join_later(group), name=f"later: {group.name}")
            for group in self.workload.groups
            if group.joins_after_seconds
        ]
        for producers in self.workload.producers:
            for number in range(1, producers.clients + 1):
                await self.start(f"{producers.program}-{number}")

    async def start(self, name: str) -> None:
        """Start a machine's program, with as many attempts as needed."""
        if name in self._starting or name in self.up or name in self.gone:
            return
        self._starting.add(name)
        try:
            tries_left = START_TRIES_MAX
            while tries_left and name not in self.gone:
                if not self.faults_in_force:
                    tries_left -= 1
                if await self._try_to_start(name, is_last=not tries_left):
                    return
                await self.world.run_for(START_PAUSE_MS)
        finally:
            self._starting.discard(name)

    async def _try_to_start(self, name: str, is_last: bool) -> bool:
        service = self._makers[name]()
        try:
            await self.world.start(name, service)
        except ProcessKilled:
            return False
        except Exception as error:  # noqa: BLE001 (whatever keeps a program from starting is looked for, too)
            is_expected = isinstance(error, StaticfireError | OSError)
            if is_last or not is_expected:
                self.record.note(WentWrong(self.now_ms, name, f"it failed to start: {error!r}"))
            return False
        self.up.add(name)
        self.lives[name] = self.lives.get(name, 0) + 1
        self.record.note(ProcessBegan(self.now_ms, name))
        for on_start in self.started:
            on_start()
        watch = asyncio.get_running_loop().create_task(self._watch(name, service), name=f"watch over {name}")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        return True

    async def _watch(self, name: str, service: Service) -> None:
        """Restart a program that has crashed, as users of such programs do."""
        try:
            await service.wait()
            return
        except Exception as error:  # noqa: BLE001 (whatever it crashed with is what is looked for)
            is_disk = isinstance(error, StorageError | OSError) and name in self.disks and self.disks[name].was_bad
            if not is_disk:
                self.record.note(WentWrong(self.now_ms, name, f"it crashed with {error!r}"))
        self.kill(name, how="crashed")
        await self.world.run_for(START_PAUSE_MS)
        await self.start(name)

    def kill(self, name: str, power_loss: bool = False, how: str = "killed") -> None:
        """Kill a process if it is up."""
        safe_position = -1
        if name in self.brokers:
            safe_position = self.brokers[name].state.store.synced_position
        if name in self.up:
            self.up.discard(name)
            self.record.note(ProcessEnded(self.now_ms, name, "without power" if power_loss else how, safe_position))
            if self.replicas is not None and name in self.brokers and (power_loss or how == "crashed"):
                self.replicas.lost_data(name)
        self.world.kill(name, power_loss, torn=power_loss)

    async def stop(self, name: str) -> None:
        """Stop a process gracefully. A frozen one stops when it continues."""
        self.up.discard(name)
        self._stopping.add(name)
        self.record.note(ProcessEnded(self.now_ms, name, "stopping"))
        with suppress(ProcessKilled):
            try:
                await self.world.stop(name)
            except Exception as error:  # noqa: BLE001 (what a program crashed with is what is looked for)
                if name not in self.disks or not self.disks[name].was_bad:
                    self.record.note(WentWrong(self.now_ms, name, f"it failed to stop properly: {error!r}"))
                self.world.kill(name)
        self._stopping.discard(name)
        self.record.note(ProcessEnded(self.now_ms, name, "stopped"))

    def thaw(self, name: str) -> None:
        """Let a frozen process continue, unless it was killed meanwhile."""
        if name in self.up or name in self._stopping:
            self.world.thaw(name)

    async def end(self) -> None:
        """Stop all processes, clients first."""
        if self.replicas is not None:
            await self.replicas.end()
        for watch in list(self._watches):
            watch.cancel()
        for name in reversed(self._makers):
            if name in self.up:
                await self.stop(name)

    @property
    def now_ms(self) -> int:
        return self.world.uptime_ms
