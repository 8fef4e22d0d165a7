"""One seed: the lives of one broker, one after the other, on the same disk."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.queue_files import LOST
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StaticfireError, StorageError
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.record import decode_records, join_records
from staticfire.simulation.world.process import ProcessKilled
from staticfire.simulation.world.running import simulate
from staticfire.simulation.world.world import SimulatedWorld
from tests.crash.ledger import Fault, Ledger, Place, State
from tests.crash.losses import lose_files
from tests.crash.striking import Strike
from tests.crash.workload import GROUPS, LATER, QUEUES, TOPICS, Client
from tests.scenarios.broker_stand import NAME, BrokerStand

LIVES = 4
STARTS_MAX = 6
# Of one life: a start may be struck, too.
CLIENTS = 3
DELAYS_OVER_S = 20
LOSSES = 3
# At the end of each seed: a stop, and files of queues are lost before the next start.


def play(seed: int) -> int:
    """Return how many acknowledged messages are left in the end. Raises: Fault, or whatever went wrong."""

    async def scenario(world: SimulatedWorld) -> int:
        return await Lives(world, Random(seed)).live()

    return simulate(scenario, seed)


class Lives:
    """A broker, its clients, and what ends it."""

    def __init__(self, world: SimulatedWorld, random: Random) -> None:
        self._world = world
        self._random = random
        is_sync = random.random() < 0.5
        self._ledger = Ledger(is_sync)
        self._settings: dict[str, Any] = {
            "flush_disk_type": "SYNC_FLUSH" if is_sync else "ASYNC_FLUSH",
            "flush_interval_commit_log": random.choice((20, 500)),
            "flush_interval_consume_queue": random.choice((20, 1_000)),
            "flush_consumer_offset_interval": random.choice((50, 2_000)),
            "mapped_file_size_commit_log": 16 * 1024,
            "file_reserved_time": 0,
            "clean_resource_interval": 1_000,
        }
        self._stand = BrokerStand(world)
        world.machine(NAME, "10.0.0.2")
        self._disk = world.disk(NAME)
        self._disk.reorders = True
        self.lost: list[str] = []
        """What was done to the queues' files last, in words: for who looks for a fault."""

    async def live(self) -> int:
        for number in range(LIVES):
            self._disk.sync_ms = self._random.choice((0, 1, 15))
            self._disk.evicts = self._random.random() < 0.3
            await self._start_and_check()
            await self._one_life(number)
        await self._start_and_check()
        await asyncio.sleep(DELAYS_OVER_S)  # house: virtual time
        self._ledger.check_delivered(self._found(), self._stand.broker.state.store.min_position)
        self._check()
        await self._stand.restart()
        self._check()
        for _ in range(LOSSES):
            await self._lose_files()
        await self._stand.close()
        return self._ledger.survivors

    async def _lose_files(self) -> None:
        """Stop in order, lose files of queues, and start: the log has all of it."""
        await self._world.stop(NAME)
        self.lost = lose_files(self._disk, self._random)
        await self._stand.start()
        await asyncio.sleep(0.01)  # house: virtual time
        self._check()
        await self._send_works()
        if self._random.random() < 0.5:
            await self._stand.kill_and_start()
            self._check()

    # -- one life ---------------------------------------------------------------------------------------------------

    async def _one_life(self, number: int) -> None:
        strike = Strike(self._world, self._disk, self._random)
        strike.is_starting = False
        clients = [Client(self._stand, self._ledger, self._random, f"{number}.{each}") for each in range(CLIENTS)]
        tasks = [asyncio.create_task(client.run()) for client in clients]
        await self._end(strike)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self, strike: Strike) -> None:
        """Wait for the strike, and let the process, and perhaps the machine, be as it was then."""
        synced = [0]

        def note() -> None:
            self._ledger.is_frozen = True
            synced[0] = self._stand.broker.state.store.log.synced_position

        strike.note = note
        await strike.wait()
        self._took_its_leave()
        self._world.kill(NAME)
        await asyncio.sleep(0.01)  # house: virtual time
        power_loss = self._random.random() < 0.6
        strike.finish(power_loss)
        if power_loss or (strike.has_failed and self._disk.evicts):
            self._ledger.lost_power(synced[0])

    def _took_its_leave(self) -> None:
        """A broker ends by itself only when memory has lost what the disk couldn't take. Raises: what else it was."""
        for failure in self._world.failures(NAME):
            if not isinstance(failure, StorageError):
                raise failure

    # -- starts -----------------------------------------------------------------------------------------------------

    async def _start_and_check(self) -> None:
        for _ in range(STARTS_MAX):
            if not await self._start_struck():
                break
        else:
            await self._stand.start(**self._settings)
        await asyncio.sleep(0.01)  # house: virtual time: attempts to connect that began before have failed
        self._ledger.began()
        self._check()
        await self._send_works()

    async def _start_struck(self) -> bool:
        """Start; return whether that was struck, and is to be done again."""
        if self._random.random() < 0.6:
            await self._stand.start(**self._settings)
            return False
        strike = Strike(self._world, self._disk, self._random)
        strike.at_step = self._random.randrange(1, 40)
        starting = asyncio.create_task(self._stand.start(**self._settings))
        happened = asyncio.create_task(strike.happened.wait())
        await asyncio.wait((starting, happened), return_when=asyncio.FIRST_COMPLETED)
        if not strike.happened.is_set():
            happened.cancel()
            self._disk.before = None
            await starting
            return False
        await self._end(strike)
        with suppress(ProcessKilled, StaticfireError):
            await starting
        return True

    async def _send_works(self) -> None:
        for topic in (*TOPICS, LATER):
            await self._stand.put_topic(topic, QUEUES)
        for group in GROUPS:
            await self._stand.put_group(group)
        client = Client(self._stand, self._ledger, self._random, f"start at {self._world.uptime_ms}")
        before = self._ledger.survivors
        await client.send()
        if self._ledger.survivors != before + 1:
            raise Fault("a send after the start was not acknowledged")

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        state, groups = self._stand.broker.state, self._stand.broker.tables.groups
        ends = {place: state.store.queue(*place).max_offset for place in self._ledger.places}
        self._ledger.check(self._found(), ends, state.store.min_position)
        for group, topic, queue_id, offset in groups.offsets.all_committed():
            end = state.store.queue(topic, queue_id).max_offset
            if offset > end:
                raise Fault(f"{group} stands at {offset} of {topic} {queue_id}, which ends at {end}")

    def _found(self) -> dict[Place, list[tuple[int, bytes]]]:
        """Read all queues to their ends."""
        store = self._stand.broker.state.store
        return {
            (topic, queue_id): _entries(store, topic, queue_id)
            for topic in store.topics()
            for queue_id in store.queue_ids(topic)
            if topic != SCHEDULE_TOPIC
        }


def _entries(store: MessageStore, topic: str, queue_id: int) -> list[tuple[int, bytes]]:
    queue = store.queue(topic, queue_id)
    offset = queue.min_offset
    entries: list[tuple[int, bytes]] = []
    while offset < queue.max_offset:
        found = store.read(queue, offset, 32)
        if offset < queue.min_offset:
            offset = queue.min_offset  # A read has found out that these were removed: the ledger knows of which.
            continue
        if not found.record_count and found.next_offset == offset:
            raise Fault(f"{topic} {queue_id} shows nothing at {offset} of {queue.max_offset}: {found.status}")
        records = decode_records(join_records(store.records(found), found.record_count)) if found.record_count else []
        for record in records:
            if (record.topic, record.queue_id) != (topic, queue_id) or record.queue_offset < offset:
                raise Fault(f"{topic} {queue_id} shows at {offset} a record of {record.topic} {record.queue_id}")
            _check_hole(store, queue, offset, record.queue_offset)
            entries.append((record.queue_offset, record.body))
            offset = record.queue_offset + 1
        _check_hole(store, queue, offset, found.next_offset)
        offset = found.next_offset
    return entries


def _check_hole(store: MessageStore, queue: Queue, offset: int, end: int) -> None:
    """Passed over is only what is known to be lost; the ledger knows whether it may be."""
    for at in range(offset, end):
        if at not in queue.unreadable and queue.entry_bytes(at, 1) != LOST:
            raise Fault(f"{queue.topic} {queue.queue_id} passes over {at}, which isn't known to be lost")


__all__ = ["Fault", "State", "play"]
