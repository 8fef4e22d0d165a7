"""Carries out the faults of masters and slaves: lost disks, failovers, held copies, cut links between machines."""

import asyncio
from random import Random

from staticfire.broker.replication.losing import count_messages
from staticfire.failover.replicas import Failover, ReplicaAdmin
from staticfire.protocol.errors import BrokerAnswer, ClientError, NetworkError, ProtocolError
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.simulation.checkers.events import FaultBegan, FaultEnded
from staticfire.simulation.checkers.losses import DECIDES
from staticfire.simulation.runs.cluster import RunCluster
from staticfire.simulation.runs.ends import End, nothing
from staticfire.simulation.runs.replicas import ReplicaSets
from staticfire.simulation.workload.strikes import Strike
from staticfire.simulation.world.chance import source_of_chance

REFUSED = (BrokerAnswer, ClientError, NetworkError, ProtocolError)
# An administrator who lets a lagging slave take over accepts the loss of a few more messages than the slave lacks.
FURTHER_LOSSES = (3, 10, 30)
LAGS_MS = 4_000
TRIES_MAX = 60
PAUSE_MS = 500
# A master that starts, and must wait, has noticed that by then.
NOTICED_MS = 3_000
# How often an administrator waits for slaves that come back before he accepts a loss.
WAITS = 20


class ReplicaStriker:
    """Carries out single faults of replicas."""

    def __init__(self, cluster: RunCluster, replicas: ReplicaSets, admin: ReplicaAdmin) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.replicas = replicas
        self._admin = admin

    async def begin(self, strike: Strike) -> End:
        """Begin a fault; return a function that ends it."""
        name, chance = strike.target, source_of_chance(self._world.seed, "replicas", strike.detail)
        match strike.kind:
            case "lose disk":
                return self.lose_disk(name)
            case "kill master" | "freeze master":
                return self.strike_master(strike)
            case "fail over":
                await self._fail_over(name)
                return nothing
            case "cut replicas":
                return self._cut(name, chance)
            case "hold copy":
                machine, _ = await self.hold(name, chance)
                return lambda: self.release(machine)
            case "elect lagging":
                return await self._elect_lagging(name, chance, strike.lasts_ms)
            case _:
                raise AssertionError(f"unknown fault: {strike.kind}")

    async def replace_lost_masters(self) -> None:
        """Let slaves take over from masters that wait for that, as an administrator does if none does so by itself.

        If all slaves may lack messages, the best one takes over, and the administrator accepts the loss.
        """
        for name in self._cluster.workload.brokers.names:
            for tries in range(TRIES_MAX):
                await self._world.run_for(NOTICED_MS)
                if self.replicas.serving(name):
                    break
                accepts_loss = tries >= WAITS
                self.replicas.lets_lose(name, accepts_loss)
                if await self._fail_over(name, accepts_loss=accepts_loss) is not None:
                    break
                self.replicas.lets_lose(name, False)

    async def settle_disputes(self) -> None:
        """Decide for the slave if it and its master don't agree on which of them has the right log.

        An administrator waits a while, stops the master, and lets the slave take over: what follows the place at which
        their logs differ may be lost. The old master starts with an empty folder: one that never had a slave would keep
        its own log. So does each slave that refuses the new master, too.
        """
        for name in self._cluster.workload.brokers.names:
            if await self._dispute_lasts(name):
                await self._decide(name)

    async def _dispute_lasts(self, name: str) -> bool:
        for _ in range(WAITS):
            if not self.replicas.disputing(name):
                return False
            await self._world.run_for(NOTICED_MS)
        return True

    async def _decide(self, name: str) -> None:
        machine, cluster = self.replicas.serving(name), self._cluster
        cluster.record.note(FaultBegan(cluster.now_ms, DECIDES, name))
        cluster.record.states["an administrator decided which log is the right one"] += 1
        kept = self.replicas.same_until(name)
        cluster.kill(machine)
        for _ in range(TRIES_MAX):
            if await self._fail_over(name, accepts_loss=True) is not None:
                break
            await self._world.run_for(PAUSE_MS)
        self.replicas.lost_more(name, kept)
        await self._start_empty(machine)
        await self._world.run_for(NOTICED_MS)
        if await self._dispute_lasts(name):
            for refusing in self.replicas.disputing(name):
                cluster.kill(refusing)
                await self._start_empty(refusing)
        cluster.record.note(FaultEnded(cluster.now_ms, DECIDES, name))

    async def _start_empty(self, machine: str) -> None:
        self._world.disk(machine).replace_all()
        await self._cluster.start(machine)

    def lose_disk(self, machine: str) -> End:
        """Let a machine lose power and its disk; return what starts it again."""
        self._cluster.kill(machine, power_loss=True)
        self._world.disk(machine).replace_all()
        self.replicas.lost_data(machine)
        return lambda: self._cluster.start(machine)

    def strike_master(self, strike: Strike) -> End:
        """Kill or freeze the master; return what ends that."""
        machine = self.replicas.serving(strike.target)
        if machine not in self._cluster.up:
            return nothing
        if strike.kind == "kill master":
            self._cluster.kill(machine)
            return lambda: self._cluster.start(machine)
        self._world.freeze(machine)

        async def thaw() -> None:
            self._cluster.thaw(machine)

        return thaw

    def _cut(self, name: str, chance: Random) -> End:
        one, other = chance.sample(self._cluster.workload.brokers.machines_of(name), 2)
        self._world.partition(one, other)

        async def heal() -> None:
            self._world.heal(one, other)

        return heal

    async def _fail_over(
        self, name: str, to: int | None = None, losing: int | None = None, accepts_loss: bool = False
    ) -> Failover | None:
        """Let a slave take over; return None if that was refused, or there is no answer."""
        states = self._cluster.record.states
        try:
            done = await self._admin.failover(name, to, losing, accepts_loss)
        except REFUSED:
            states["a failover by an administrator was refused"] += 1
            return None
        states["a failover by an administrator"] += 1
        if done.lost > 0:
            states["a failover lost messages"] += 1
        return done

    async def hold(self, name: str, chance: Random) -> tuple[str, bool]:
        """Let a random slave copy nothing. Return its machine, empty if there is none, and whether it has answered."""
        slaves = self.replicas.slaves(name)
        machine = chance.choice(slaves) if slaves else ""
        return machine, bool(machine) and await self._control(machine, hold=True)

    async def _control(self, machine: str, hold: bool) -> bool:
        address = f"{self._world.network.hosts[machine]}:{self._cluster.brokers[machine].port}"
        try:
            await self._admin.control_at(address, ControlReplication(hold=hold))
        except REFUSED:
            return False
        return True

    async def release(self, machine: str) -> None:
        """Let a slave copy again, also if it hasn't answered: it was frozen, and holds its copy when it continues."""
        for _ in range(TRIES_MAX if machine else 0):
            if not self.replicas.is_slave(machine) or await self._control(machine, hold=False):
                return  # A master, or a new process, holds nothing.
            await self._world.run_for(PAUSE_MS)

    async def _elect_lagging(self, name: str, chance: Random, lasts_ms: int) -> End:
        machine, is_held = await self.hold(name, chance)
        if is_held:
            await asyncio.sleep(min(lasts_ms, LAGS_MS) / 1000)  # house: on virtual time
            self.replicas.lets_lose(name, True)
            if not await self._is_elected(name, machine, chance.choice(FURTHER_LOSSES)):
                self.replicas.lets_lose(name, False)
        return lambda: self.release(machine)

    async def _is_elected(self, name: str, machine: str, further: int) -> bool:
        """Let a slave take over, and lose what it lacks and some messages more; return whether that was done."""
        brokers, master = self._cluster.brokers, self.replicas.serving(name)
        if not {machine, master} <= self._cluster.up:
            return False
        state = brokers[machine].replication_state()
        lacks = count_messages(brokers[master].state.store.records_from(state.end_position))
        return await self._fail_over(name, state.broker_id, lacks + further) is not None
