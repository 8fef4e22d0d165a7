"""Carries out the faults of a run: each begins at its time, and ends after its duration or when the run ends."""

import asyncio
from collections.abc import Callable

from staticfire.simulation.checkers.events import FaultBegan, FaultEnded, GoneForGood
from staticfire.simulation.runs.administering import Administrator
from staticfire.simulation.runs.cluster import OBSERVER, RunCluster
from staticfire.simulation.runs.disk_trouble import SYNCS, WRITES
from staticfire.simulation.runs.ends import End
from staticfire.simulation.runs.striking_replicas import ReplicaStriker
from staticfire.simulation.runs.striking_sets import SetStriker
from staticfire.simulation.workload.strikes import (
    ADMINISTRATION,
    FOR_GOOD,
    LASTING,
    REPLICA_STRIKES,
    SET_STRIKES,
    Strike,
)
from staticfire.simulation.world.chance import source_of_chance
from staticfire.simulation.world.link import LinkQuality

STEPS_MAX = 120
NUDGES_MAX = 12
SLOW_SYNC_MS_MAX = 2_000
FAILING_SHARES = (0.02, 0.2, 1.0)
MISDIRECTED_SHARE = 0.01

# After this time a silent member is removed from its group, and other members have its queues. It would continue
# forever with the messages that it holds, without any effect on others.
NOTICED_MS = 150_000

# The time after which a fault ends only when there is a master: an administrator undoes a change.
MASTERLESS_S = 60

QUALITIES = {
    "slow network": LinkQuality(delay_ms=10, jitter_ms=90, has_tail=True),
    "losing network": LinkQuality(delay_ms=1, loss=0.05),
    "resetting network": LinkQuality(delay_ms=1, resets=0.005),
    "reordering network": LinkQuality(delay_ms=0.1, jitter_ms=40, has_tail=True, reorders=True, fragments=True),
    "narrow network": LinkQuality(delay_ms=5, bytes_per_second=20_000, window_bytes=8_192),
}


class Striker:
    """Carries out a list of strikes."""

    def __init__(self, cluster: RunCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._over = asyncio.Event()
        self._administrator = Administrator(cluster, self._over.is_set)
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, strikes: list[Strike]) -> None:
        """Schedule each strike at its time from now on."""
        loop = asyncio.get_running_loop()
        for strike in strikes:
            self._tasks.append(loop.create_task(self._play(strike), name=str(strike)))

    async def end(self) -> None:
        """End all faults now; return when everything works again."""
        self._over.set()
        if self._cluster.replicas is None:
            await asyncio.gather(*self._tasks)
            return
        waiting = (await asyncio.wait(self._tasks, timeout=MASTERLESS_S))[1] if self._tasks else set()
        await self._on_replicas().replace_lost_masters()
        await asyncio.gather(*self._tasks)
        if waiting:
            await self._on_replicas().replace_lost_masters()
        await self._on_replicas().settle_disputes()
        await self._administrator.apply_again()

    async def _play(self, strike: Strike) -> None:
        if await self._is_over_within(strike.at_ms):
            return
        if self._is_down(strike.target):
            self._cluster.record.states["strikes at targets that weren't running"] += 1
            return
        await self._world.run_for(ms=strike.detail % 1_000 / 1_000)
        for _ in range(strike.detail // 1_000 % NUDGES_MAX):
            await asyncio.sleep(0)  # So the strike can hit between any two steps of the code that runs at that moment.
        if self._is_down(strike.target):
            return
        self._cluster.record.states[strike.kind] += 1
        if strike.kind in LASTING:
            await self._end_for_good(strike)
            return
        targets = dict.fromkeys((strike.target, self._cluster.workload.brokers.set_of(strike.target)))
        for target in targets:  # A fault of a machine is one of its broker.
            self._cluster.record.note(FaultBegan(self._cluster.now_ms, strike.kind, target))
        self._cluster.faults_in_force += 1
        restore = await self._strike(strike)
        await self._is_over_within(strike.lasts_ms)
        self._cluster.faults_in_force -= 1
        await restore()
        for target in targets:
            self._cluster.record.note(FaultEnded(self._cluster.now_ms, strike.kind, target))

    async def _end_for_good(self, strike: Strike) -> None:
        """Remove a machine for good. The fault ends when all others must have noticed it."""
        cluster, target, what = self._cluster, strike.target, strike.kind.removesuffix(FOR_GOOD)
        cluster.gone.add(target)
        cluster.record.note(FaultBegan(cluster.now_ms, what, target))
        cluster.record.note(GoneForGood(cluster.now_ms, target))
        if what.startswith("isolate"):
            self._world.isolate(target)
            await self._is_over_within(NOTICED_MS)
        cluster.kill(target)
        cluster.record.note(FaultEnded(cluster.now_ms, what, target))

    def _is_down(self, target: str) -> bool:
        return target in self._cluster.names and target not in self._cluster.up

    async def _is_over_within(self, ms: int) -> bool:
        try:
            async with asyncio.timeout(ms / 1000):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    async def _strike(self, strike: Strike) -> End:
        """Begin a fault; return a function that ends it."""
        kind, target = strike.kind, strike.target
        if kind in ADMINISTRATION:
            return await self._administrator.begin(strike)
        if kind in REPLICA_STRIKES:
            return await self._on_replicas().begin(strike)
        if kind in SET_STRIKES:
            return await SetStriker(self._cluster, self._on_replicas()).begin(strike)
        if kind in QUALITIES:
            return self._strike_network(strike)
        match kind.split()[0]:
            case "kill" | "lose" if kind.endswith("step"):
                return self._end_at_step(strike)
            case "kill" | "lose":
                self._cluster.kill(target, power_loss=kind.startswith("lose"))
                return lambda: self._cluster.start(target)
            case "restart":
                await self._cluster.stop(target)
                return lambda: self._cluster.start(target)
            case "freeze":
                self._world.freeze(target)
                return self._later(lambda: self._cluster.thaw(target))
            case "isolate":
                self._world.isolate(target)
                return self._later(lambda: self._world.heal(target))
            case "cut":
                here, there = (strike.other, target) if kind.endswith("way") else (target, strike.other)
                self._world.partition(here, there, one_way=kind.endswith("way"))
                return self._later(lambda: self._world.heal(target, strike.other))
            case "reset":
                self._world.network.reset_connections(target)
                return self._later(lambda: None)
            case "no":
                self._world.network.full.add(target)
                return self._later(lambda: self._world.network.full.discard(target))
            case _:
                return self._strike_disk(strike)

    def _on_replicas(self) -> ReplicaStriker:
        cluster = self._cluster
        assert cluster.replicas is not None, "the workload has no replicas"
        assert cluster.replica_admin is not None, "the cluster has not begun"
        return ReplicaStriker(cluster, cluster.replicas, cluster.replica_admin)

    def _later(self, act: Callable[[], None]) -> End:
        async def end() -> None:
            act()

        return end

    def _end_at_step(self, strike: Strike) -> End:
        cluster, target = self._cluster, strike.target
        trouble = cluster.disks[target]
        life = cluster.lives[target]
        has_power = not strike.kind.startswith("lose")
        trouble.end_at_step(1 + strike.detail % STEPS_MAX, lambda: cluster.kill(target, power_loss=not has_power))

        async def end() -> None:
            trouble.mend()
            if cluster.lives[target] == life:
                await cluster.start(target)

        return end

    def _strike_disk(self, strike: Strike) -> End:
        disk, trouble = self._world.disk(strike.target), self._cluster.disks[strike.target]
        chance = source_of_chance(self._world.seed, "disk", strike.detail)
        share = FAILING_SHARES[strike.detail % len(FAILING_SHARES)]
        match strike.kind:
            case "slow disk":
                disk.sync_ms = chance.randrange(1, SLOW_SYNC_MS_MAX)
            case "full disk":
                trouble.was_bad = True
                disk.bytes_left = 0
            case "failing writes":
                trouble.fail(WRITES, share, chance)
            case "failing syncs":
                trouble.fail(SYNCS, share, chance)
            case "failing reads":
                trouble.fail_reads(share * share, chance, lambda: self._cluster.kill(strike.target))
            case "misdirected reads":
                trouble.misdirect_reads(MISDIRECTED_SHARE, chance)
            case "bit rot":
                trouble.rot(chance)
            case _:
                raise AssertionError(f"unknown fault: {strike.kind}")

        def mend() -> None:
            disk.sync_ms, disk.bytes_left = trouble.usual_sync_ms, None
            trouble.mend()

        async def end() -> None:
            mend()
            await self._cluster.start(strike.target)  # A failed read through a map has killed it.

        return end

    def _strike_network(self, strike: Strike) -> End:
        network = self._world.network
        usual = self._cluster.workload.network
        names = [*self._cluster.names, OBSERVER]

        def use(quality: LinkQuality) -> None:
            network.quality = quality
            for name in names:
                for link in network.links_of(name):
                    link.use(quality)

        use(QUALITIES[strike.kind])
        return self._later(lambda: use(usual))
