"""Actions of administrators while a cluster runs: queues, permissions, switched-off groups, offsets, settings.

Each action is carried out on every broker, and retried if a broker doesn't respond, as a person would do it. What was
forbidden is permitted again when its time is over. `PermissionWithdrawn` is recorded after all brokers have confirmed,
and `PermissionRestored` before the first broker is changed back: between the two, what is forbidden must not happen.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import msgspec

from staticfire.broker.settings import BrokerSettings
from staticfire.client import Admin
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.permissions import READ, READ_WRITE, WRITE
from staticfire.protocol.record import decode_records, join_records
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.runtime.config import field_named, key_of, text_of
from staticfire.simulation.checkers.events import (
    OffsetsReset,
    PermissionRestored,
    PermissionWithdrawn,
    QueuesAdded,
    WentWrong,
)
from staticfire.simulation.runs.cluster import NAMESRV, OBSERVER, RunCluster
from staticfire.simulation.runs.ends import End, nothing
from staticfire.simulation.runs.replicas import ALL_LOST
from staticfire.simulation.workload.strikes import Strike
from staticfire.simulation.world.chance import source_of_chance

TRY_AGAIN_MS = 1_000
# The maximum number of attempts for one action; after that it is reported as an error.
TRIES_MAX = 600
MORE_QUEUES_MAX = 3
QUEUES_MAX = 12
# By how much a group's offsets are reset to before the oldest message that it hasn't consumed.
BACK_MS_MAX = 40_000
ASK_MS = 5_000

SETTINGS: dict[str, tuple[object, ...]] = {
    "flush_consumer_offset_interval": (100, 5_000),
    "long_polling_enable": (True, False),
    "max_transfer_count_on_message_in_memory": (1, 32),
    "notify_consumer_ids_changed_enable": (True, False),
    "register_name_server_period": (10_000, 30_000),
    "transaction_check_interval": (2_000, 10_000),
}
"""Settings that can be changed on a running broker, with values that don't affect any promise."""

Act = Callable[[Admin, str], Awaitable[None]]
"""An action on the broker of this name."""


class Administrator:
    """Carries out the faults that are actions of an administrator."""

    def __init__(self, cluster: RunCluster, is_over: Callable[[], bool]) -> None:
        """`is_over`: returns whether the time for faults has ended, so that nothing new is begun."""
        self._cluster = cluster
        self._is_over = is_over
        self._forbidding: Counter[tuple[str, str]] = Counter()  # By what and target: actions may overlap.
        self._last: dict[str, Act] = {}
        """What restores each changed topic and group."""

    async def begin(self, strike: Strike) -> End:
        """Carry out an action; return a function that undoes it."""
        target = strike.target
        chance = source_of_chance(self._cluster.world.seed, "administration", strike.detail)
        match strike.kind:
            case "add queues":
                return await self._add_queues(target, chance)
            case "fewer write queues":
                return await self._change_topic(target, write_queues=(self._cluster.queues[target] + 1) // 2)
            case "fewer read queues":
                return await self._change_topic(target, read_queues=(self._cluster.queues[target] + 1) // 2)
            case "forbid writing":
                return await self._forbid("writing", target, self._topic_act(target))
            case "forbid reading":
                return await self._forbid("reading", target, self._topic_act(target))
            case "switch off group":
                return await self._forbid("consuming", target, self._group_act(target))
            case "reset offsets":
                return await self._reset(target, chance)
            case "change settings":
                return await self._change_settings(target, chance)
            case _:
                raise AssertionError(f"unknown change by an administrator: {strike.kind}")

    async def apply_again(self) -> None:
        """Restore what was changed: a slave that took over may have older topics and groups, or lost them, too."""
        if self._cluster.record.states[ALL_LOST]:
            await self._until_done(self._create_again)
        for act in self._last.values():
            await self._everywhere(act, is_sure=True)

    async def _create_again(self, admin: Admin) -> None:
        """Create all topics and groups again, with no fewer queues than a send has created meanwhile."""
        for topic in list(self._cluster.queues):
            with suppress(StaticfireError):  # No broker knows the topic.
                for of_broker in (await admin.route(topic)).queue_datas:
                    self._grow(topic, of_broker.read_queue_nums)
        await self._cluster.create_tables(admin)

    def _grow(self, topic: str, count: int) -> None:
        if count > self._cluster.queues[topic]:
            self._cluster.queues[topic] = count
            self._cluster.record.note(QueuesAdded(self._cluster.now_ms, topic, count))

    # -- actions -----------------------------------------------------------------------------------------------------

    async def _add_queues(self, topic: str, chance: Random) -> End:
        before = self._cluster.queues[topic]
        self._grow(topic, min(before + chance.randint(1, MORE_QUEUES_MAX), QUEUES_MAX))
        self._last[topic] = self._topic_act(topic)
        await self._everywhere(self._last[topic], is_sure=True)
        return nothing

    async def _change_topic(self, topic: str, read_queues: int = 0, write_queues: int = 0) -> End:
        cluster = self._cluster
        is_everywhere = await self._everywhere(self._topic_act(topic, read_queues, write_queues))
        self._last[topic] = self._topic_act(topic)
        if write_queues and is_everywhere:
            cluster.record.note(PermissionWithdrawn(cluster.now_ms, "writing queues", topic, write_queues))

        async def end() -> None:
            if write_queues:
                cluster.record.note(PermissionRestored(cluster.now_ms, "writing queues", topic))
            await self._everywhere(self._last[topic], is_sure=True)

        return end

    async def _forbid(self, what: str, target: str, act: Act) -> End:
        cluster = self._cluster
        cluster.was_forbidden.add(target)
        self._forbidding[what, target] += 1
        self._last[target] = act
        if await self._everywhere(act):
            cluster.record.note(PermissionWithdrawn(cluster.now_ms, what, target))

        async def allow() -> None:
            cluster.record.note(PermissionRestored(cluster.now_ms, what, target))
            self._forbidding[what, target] -= 1
            await self._everywhere(act, is_sure=True)

        return allow

    async def _reset(self, group: str, chance: Random) -> End:
        topic = next(one for one in self._cluster.workload.groups if one.name == group).topics[0]
        clock = self._cluster.world.machine(OBSERVER).clock
        ago_ms = self._unconsumed_for_ms(group, topic) + chance.randrange(1, BACK_MS_MAX)
        stored_ms = clock.wall_ms() - ago_ms
        requested_ms = self._cluster.now_ms

        async def reset(admin: Admin) -> None:
            moved = await admin.reset_offset_by_time(group, topic, stored_ms, force=False)
            offsets = {(queue.broker_name, topic, queue.queue_id): offset for queue, offset in moved.items()}
            now_ms = self._cluster.now_ms
            self._cluster.record.note(OffsetsReset(now_ms, group, topic, requested_ms, requested_ms - ago_ms, offsets))

        await self._until_done(reset)
        return nothing

    def _unconsumed_for_ms(self, group: str, topic: str) -> int:
        """Return the age of the oldest stored message that the group hasn't consumed yet."""
        cluster, now_ms = self._cluster, int(self._cluster.world.machine(OBSERVER).clock.wall_ms())
        serving = cluster.serving_brokers()
        if not serving.keys() >= set(cluster.brokers_there):
            return cluster.now_ms  # The content of a broker that is down is unknown, so this assumes the maximum.
        stored_ms = now_ms
        for broker in serving.values():
            state, offsets = broker.state, broker.tables.groups.offsets
            for queue_id in range(cluster.queues[topic]):
                queue = state.store.queue(topic, queue_id)
                offset = max(offsets.committed(group, topic, queue_id), 0)
                found = state.store.read(queue, offset, 1)
                if found.record_count:
                    for record in decode_records(join_records(state.store.records(found), found.record_count)):
                        stored_ms = min(stored_ms, record.stored_ms)
        return now_ms - stored_ms

    async def _change_settings(self, broker: str, chance: Random) -> End:
        name = chance.choice(sorted(SETTINGS))
        usual = self._cluster.workload.brokers.settings.get(name, getattr(BrokerSettings(), name))
        await self._set(broker, name, chance.choice(SETTINGS[name]))
        return lambda: self._set(broker, name, usual)

    async def _set(self, broker: str, name: str, value: object) -> None:
        body = f"{key_of(field_named(BrokerSettings, name))}={text_of(value)}\n".encode()

        async def tell(admin: Admin) -> None:
            address = (await admin.masters(broker_name=broker))[broker]
            answer = await admin.client.pool.ask(address, UpdateBrokerConfig(body=body), ASK_MS)
            if answer.code != SUCCESS:
                words = f"{broker} refused {name}={value}: {answer.remark}"
                self._cluster.record.note(WentWrong(self._cluster.now_ms, OBSERVER, words))

        await self._until_done(tell)

    # -- on all brokers ----------------------------------------------------------------------------------------------

    def _topic_act(self, topic: str, read_queues: int = 0, write_queues: int = 0) -> Act:
        async def change(admin: Admin, broker: str) -> None:
            count = self._cluster.queues[topic]
            perm = READ_WRITE
            if self._forbidding["reading", topic]:
                perm &= ~READ
            if self._forbidding["writing", topic]:
                perm &= ~WRITE
            await admin.create_topic(
                topic, read_queues or count, write_queues=write_queues or count, perm=perm, broker_name=broker
            )

        return change

    def _group_act(self, group: str) -> Act:
        async def change(admin: Admin, broker: str) -> None:
            is_on = not self._forbidding["consuming", group]
            config = await admin.group_config(group, broker)
            await admin.create_group(msgspec.structs.replace(config, consume_enable=is_on), broker_name=broker)

        return change

    async def _everywhere(self, act: Act, is_sure: bool = False) -> bool:
        """Apply an action to all brokers; return whether all succeeded. `is_sure`: also after the time for faults."""
        all_done = True
        for broker in self._cluster.workload.brokers.names:

            async def once(admin: Admin, broker: str = broker) -> None:
                await act(admin, broker)

            is_done = await self._until_done(once, broker, is_sure)
            while is_done and await self._was_replaced(broker):
                is_done = await self._until_done(once, broker, is_sure)
            all_done = is_done and all_done
        return all_done

    async def _was_replaced(self, broker: str) -> bool:
        """Return whether a master may have accepted a change that its successor doesn't have, when that is over.

        Two masters may remain until an administrator decides between them. That comes after the time for faults, and
        then all changes are applied again.
        """
        cluster, was_replaced = self._cluster, False
        while cluster.replicas is not None and cluster.replicas.has_outdated_master(broker):
            if self._is_over():
                return False
            was_replaced = True
            await cluster.world.run_for(TRY_AGAIN_MS)
        return was_replaced

    async def _until_done(
        self, act: Callable[[Admin], Awaitable[None]], broker: str = "", is_sure: bool = True
    ) -> bool:
        """Retry until it succeeds; return whether it did."""
        cluster, why = self._cluster, ""
        for _ in range(TRIES_MAX):
            if broker in cluster.gone:
                return True
            try:
                async with Admin(NAMESRV, machine=cluster.world.machine(OBSERVER)) as admin:
                    await act(admin)
                    return True
            except (StaticfireError, KeyError) as error:
                why = repr(error)
            if self._is_over() and not is_sure:
                return False
            await cluster.world.run_for(TRY_AGAIN_MS)
        words = f"an administrator failed {TRIES_MAX} times: {why}"
        cluster.record.note(WentWrong(cluster.now_ms, OBSERVER, words))
        return False
