"""Static topics on simulated brokers. They are created and remapped step by step, as mqadmin does it."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    TimestampAnswer,
    UpdateConsumerOffset,
)
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.routes import GetRoute, RouteAnswer
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.protocol.requests.static_topics import MappingDetail, MappingInfo, MappingItem, UpdateStaticTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.protocols import NAMES
from tests.scenarios.stand import NAMESERVER, Stand

BLOCK = 10_000
TOPIC = "ledger"
GROUP = "clerks"


class StaticTopic:
    """A topic of logical queues, with operations to send, pull and remap."""

    def __init__(self, stand: Stand, leaders: list[str], topic: str = TOPIC) -> None:
        """`leaders`: the broker of each logical queue."""
        self.stand = stand
        self.topic = topic
        self.epoch = 1_000
        self.physical = dict.fromkeys(stand.brokers, 0)
        self.items: dict[int, list[MappingItem]] = {}
        self.hosts: dict[str, set[int]] = {name: set() for name in stand.brokers}
        for queue_id, name in enumerate(leaders):
            self._append(queue_id, name, 0, 0)

    def _append(self, queue_id: int, name: str, gen: int, logic_offset: int) -> None:
        item = MappingItem(gen, self.physical[name], name, logic_offset)
        self.physical[name] += 1
        self.items[queue_id] = [*self.items.get(queue_id, []), item]
        self.hosts[name].add(queue_id)

    def detail(self, name: str) -> MappingDetail:
        hosted = {queue_id: self.items[queue_id] for queue_id in sorted(self.hosts[name])}
        return MappingDetail(self.topic, name, len(self.items), self.epoch, hosted_queues=hosted)

    async def put(self, name: str, force: bool | None = None, **changes: Any) -> Any:
        """Write one broker's mapping."""
        queues = self.physical[name]
        body = msgspec.structs.replace(self.detail(name), **changes)
        request = UpdateStaticTopic(self.topic, queues, queues, 6, "TBW102", "SINGLE_TAG", 0, force=force, body=body)
        return await self.stand.ask(self.stand.brokers[name], request)

    async def put_all(self, *names: str) -> None:
        for name in names or self.stand.brokers:
            answer = await self.put(name)
            assert answer.code == 0, answer.remark

    async def remap(self, queue_id: int, name: str, decide: bool = True) -> None:
        """Map a logical queue to another broker. It accepts messages at once, and gets its offset when it is known."""
        old = self.items[queue_id][-1]
        self.epoch += 1_000
        self._append(queue_id, name, old.gen + 1, -1)
        await self.put_all(name)
        await self.put_all(old.bname)
        if decide:
            await self.decide(queue_id)
        await self.put_all(*(other for other in self.stand.brokers if other not in (name, old.bname)))

    async def decide(self, queue_id: int) -> None:
        old, new = self.items[queue_id][-2:]
        of_broker = GetMaxOffset(self.topic, old.queue_id, lo=False)
        end = (await self.stand.ask(self.stand.brokers[old.bname], of_broker)).offset
        logic_offset = (old.logic_offset + end) // BLOCK * BLOCK + BLOCK
        self.items[queue_id][-1] = msgspec.structs.replace(new, logic_offset=logic_offset)
        await self.put_all(new.bname)

    # -- client requests -------------------------------------------------------------------------------------------

    def leader(self, queue_id: int) -> str:
        return self.items[queue_id][-1].bname

    async def ask(self, queue_id: int, request: Any, broker: str | None = None) -> Any:
        return await self.stand.ask(self.stand.brokers[broker or self.leader(queue_id)], request)

    async def send(self, queue_id: int, body: bytes, broker: str | None = None, properties: str = "") -> Any:
        request = SendMessageV2("program", self.topic, "TBW102", 4, queue_id, 0, 0, 0, properties, body=body)
        return await self.ask(queue_id, request, broker)

    async def pull(self, queue_id: int, offset: int, hold_ms: int = 0, broker: str | None = None, **more: Any) -> Any:
        flags = FLAG_SUBSCRIPTION | (FLAG_SUSPEND if hold_ms else 0) | more.pop("flags", 0)
        request = PullMessage(
            GROUP, self.topic, queue_id, offset, 32, flags, more.pop("commit_offset", 0), hold_ms, "*", **more
        )
        return await self.ask(queue_id, request, broker)

    async def drain(self, queue_id: int, offset: int = 0) -> list[tuple[int, bytes]]:
        """Pull a logical queue to its end; return logical offsets and bodies."""
        found: list[tuple[int, bytes]] = []
        for _ in range(20):
            answer = await self.pull(queue_id, offset)
            offset = answer.next_begin_offset
            if answer.code == 0:
                found += [(r.queue_offset + (answer.offset_delta or 0), r.body) for r in answer.body.records]
            elif answer.code != 20:
                return found
        raise AssertionError(f"logical queue {queue_id} has no end: {found}")

    async def offset(self, queue_id: int, kind: type[GetMaxOffset | GetMinOffset] = GetMaxOffset) -> int:
        answer: OffsetAnswer = await self.ask(queue_id, kind(self.topic, queue_id))
        return answer.offset

    async def earliest(self, queue_id: int) -> int:
        answer: TimestampAnswer = await self.ask(queue_id, GetEarliestStoreTime(self.topic, queue_id))
        return answer.timestamp

    async def search(self, queue_id: int, timestamp: int, boundary: str | None = None) -> int:
        answer: OffsetAnswer = await self.ask(queue_id, SearchOffset(self.topic, queue_id, timestamp, boundary))
        return answer.offset

    async def commit(self, queue_id: int, offset: int, broker: str | None = None) -> Any:
        return await self.ask(queue_id, UpdateConsumerOffset(GROUP, self.topic, queue_id, offset), broker)

    async def committed(self, queue_id: int) -> Any:
        return await self.ask(queue_id, QueryConsumerOffset(GROUP, self.topic, queue_id))


@pytest_asyncio.fixture(params=first_and_slow([JSON, NATIVE]), ids=NAMES)
async def trio(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    """Three brokers, and a group that all of them have."""
    trio = Stand(world, 3)
    trio.pool = ConnectionPool(world.machine("program", "10.0.0.9"), codec_byte=request.param)
    await trio.start()
    for address in trio.brokers.values():
        assert (await trio.ask(address, UpdateGroup(body=SubscriptionGroupConfig(GROUP)))).code == 0
    yield trio
    await trio.close()


@pytest_asyncio.fixture
async def ledger(trio: Stand) -> StaticTopic:
    """A static topic: logical queues 0 and 2 are on broker-a, 1 is on broker-b, none on broker-c."""
    topic = StaticTopic(trio, ["broker-a", "broker-b", "broker-a"])
    await topic.put_all()
    return topic


async def route(trio: Stand) -> dict[str, MappingInfo]:
    answer: RouteAnswer = await trio.ask(NAMESERVER, GetRoute(TOPIC))
    mappings: dict[str, MappingInfo] | None = answer.body.topic_queue_mapping_by_broker
    assert mappings is not None
    return mappings
