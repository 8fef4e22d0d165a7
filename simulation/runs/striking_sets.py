"""Carries out faults in which several things happen at once to a master and its slaves."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from staticfire.client import Admin
from staticfire.protocol.command import SUCCESS, Request
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.send import SendMessage
from staticfire.protocol.requests.snapshots import SaveSnapshot
from staticfire.protocol.requests.topics import DeleteTopic, UpdateTopic
from staticfire.simulation.checkers.events import TopicChanged
from staticfire.simulation.runs.cluster import NAMESRV, OBSERVER, RunCluster
from staticfire.simulation.runs.ends import End, nothing
from staticfire.simulation.runs.striking_replicas import ReplicaStriker
from staticfire.simulation.workload.strikes import Strike
from staticfire.simulation.world.chance import source_of_chance

SIDE = "side-"
"""The beginning of the names of topics that no program uses."""
QUEUES_MAX = 6
ASK_MS = 5_000
# The pauses between two changes of a topic, and before what happens beside them.
PAUSES_MS = (0, 1, 20, 300)
BESIDE_MS_MAX = 1_500
BESIDE = ("fail over", "kill master", "freeze master", "cut replicas", "")


class SetStriker:
    """Carries out single faults of this kind."""

    def __init__(self, cluster: RunCluster, striker: ReplicaStriker) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._striker = striker

    async def begin(self, strike: Strike) -> End:
        """Begin a fault; return a function that ends it."""
        chance = source_of_chance(self._world.seed, "sets", strike.detail)
        match strike.kind:
            case "change topics":
                return await self._change_topics(strike, chance)
            case "save snapshot":
                return await self._both(self._beside(strike, "fail over", chance), self._save(strike))
            case "hold and lose disk":
                return await self._hold_and_lose_disk(strike, chance)
            case "freeze slave and kill master":
                return self._freeze_and_kill(strike, chance)
            case _:
                raise AssertionError(f"unknown fault: {strike.kind}")

    async def _both(self, fault: Coroutine[Any, Any, End], *acts: Coroutine[Any, Any, None]) -> End:
        """Run all of it at once; return what ends the fault."""
        async with asyncio.TaskGroup() as group:
            end = group.create_task(fault)
            for act in acts:
                group.create_task(act)
        return end.result()

    async def _beside(self, strike: Strike, kind: str, chance: Random) -> End:
        """Let something else happen to the broker, soon."""
        await self._world.run_for(chance.randrange(BESIDE_MS_MAX))
        if not kind:
            return nothing
        return await self._striker.begin(Strike(0, kind, strike.target, strike.lasts_ms, strike.detail))

    # -- topics ------------------------------------------------------------------------------------------------------

    async def _change_topics(self, strike: Strike, chance: Random) -> End:
        changes = [self._life_of_topic(strike, number, chance) for number in range(2)]
        return await self._both(self._beside(strike, chance.choice(BESIDE), chance), *changes)

    async def _life_of_topic(self, strike: Strike, number: int, chance: Random) -> None:
        """Create a topic, send a message to it, add queues, delete it, create it again: a random part of this."""
        topic, queues = f"{SIDE}{strike.detail}-{number}", chance.randint(1, QUEUES_MAX - 1)
        wanted = [queues, chance.randint(queues, QUEUES_MAX), 0, queues][: chance.randint(1, 4)]
        for one in wanted:
            await self._world.run_for(chance.choice(PAUSES_MS))
            is_done = await self._change_topic(strike.target, topic, one)
            if is_done and one == queues:
                is_done = await self._ask(strike.target, _message_for(topic))
            if not is_done:
                return  # A request that is still in flight may be carried out after the next one.

    async def _change_topic(self, broker: str, topic: str, queues: int) -> bool:
        """Create, change or delete (no queues) a topic, once; return whether that was acknowledged."""
        cluster, began_ms = self._cluster, self._cluster.now_ms
        request = UpdateTopic(topic, queues, queues, READ_WRITE) if queues else DeleteTopic(topic)
        is_done = await self._ask(broker, request)
        cluster.record.note(TopicChanged(cluster.now_ms, broker, topic, queues, began_ms, is_done))
        return is_done

    async def _ask(self, broker: str, request: Request) -> bool:
        """Send a request to the master of a broker once; return whether it was carried out."""
        try:
            async with Admin(NAMESRV, machine=self._world.machine(OBSERVER)) as admin:
                address = (await admin.masters(broker_name=broker))[broker]
                answer = await admin.client.pool.ask(address, request, ASK_MS)
        except (StaticfireError, KeyError):
            return False
        return answer.code == SUCCESS

    # -- others ------------------------------------------------------------------------------------------------------

    async def _save(self, strike: Strike) -> None:
        if await self._ask(strike.target, SaveSnapshot(f"snapshot-{strike.detail}")):
            self._cluster.record.states["a snapshot was saved beside a failover"] += 1

    async def _hold_and_lose_disk(self, strike: Strike, chance: Random) -> End:
        cluster, name = self._cluster, strike.target
        held, _ = await self._striker.hold(name, chance)
        running = [one for one in cluster.workload.brokers.machines_of(name) if one in cluster.up]
        starts = self._striker.lose_disk(chance.choice(running)) if running else nothing

        async def end() -> None:
            await starts()
            await self._striker.release(held)

        return end

    def _freeze_and_kill(self, strike: Strike, chance: Random) -> End:
        slaves = self._striker.replicas.slaves(strike.target)
        frozen = chance.choice(slaves) if slaves else ""
        if frozen:
            self._world.freeze(frozen)
        ends = self._striker.strike_master(Strike(0, "kill master", strike.target))

        async def end() -> None:
            if frozen:
                self._cluster.thaw(frozen)
            await ends()

        return end


def _message_for(topic: str) -> SendMessage:
    return SendMessage("sides", topic, "", 1, 0, 0, 0, 0, "", body=b"side")
