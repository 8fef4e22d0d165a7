"""A message whose body can't be expanded: it is heard as it is stored, with a note, and its queue goes on."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ConsumeFromWhere, ConsumeStatus, OrderedContext, OrderedStatus
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.protocol.sys_flag import COMPRESSED
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Messages, Shop

WHY = "a body can't be decompressed with zlib: Error -3 while decompressing data: incorrect header check"


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    yield await shop.open(queues=1)
    await shop.close()


async def send_poison(shop: Shop) -> None:
    request = SendMessageV2("shop", TOPIC, "TBW102", 4, 0, COMPRESSED, 0, 0, "UNIQ_KEY\x01poison\x02", body=b"poison")
    answer = await shop.producer.client.pool.ask("10.0.1.1:10911", request, 1_000)
    assert answer.code == 0, answer.remark


@BOTH_PROTOCOLS
@pytest.mark.row("P4")
async def test_a_poison_message_is_reported_and_its_queue_continues(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await shop.send(b"before")
    await send_poison(shop)
    await shop.send(b"after")
    await shop.until_heard(3, within_ms=1_000)
    assert [(heard.message.body, heard.message.undecoded) for heard in shop.heard] == [
        (b"before", None),
        (b"poison", WHY),
        (b"after", None),
    ]
    await world.until(shop.is_committed, within_ms=1_000)


@BOTH_PROTOCOLS
async def test_a_poison_message_of_a_backlog_hides_no_other(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"before")
    await send_poison(shop)
    await shop.send(b"after")
    await shop.start("one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await shop.until_heard(3, within_ms=1_000)
    assert shop.bodies == [b"before", b"poison", b"after"]


async def test_a_poison_message_that_fails_goes_the_way_of_failed_ones(world: SimulatedWorld, shop: Shop) -> None:
    async def refuse(heard: Heard) -> ConsumeStatus:
        is_dead = heard.message.undecoded is not None
        if is_dead:
            heard.context.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER if is_dead else ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", refuse)
    await send_poison(shop)
    await shop.send(b"after")
    await shop.until_heard(2, within_ms=1_000)
    await world.until(lambda: sum(shop.ends(f"%DLQ%{GROUP}").values()) == 1, within_ms=1_000)
    await world.until(shop.is_committed, within_ms=1_000)


@BOTH_PROTOCOLS
async def test_in_order_a_poison_message_has_its_turn_as_any_other(world: SimulatedWorld, shop: Shop) -> None:
    consumer = shop.consumer("one")
    seen: list[tuple[bytes, str | None]] = []

    @consumer.ordered_listener
    async def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        seen.extend((message.body, message.undecoded) for message in messages)
        return OrderedStatus.SUCCESS

    await world.start("one", consumer)
    await shop.send(b"before")
    await send_poison(shop)
    await shop.send(b"after")
    await world.until(lambda: len(seen) == 3, within_ms=1_000)
    assert seen == [(b"before", None), (b"poison", WHY), (b"after", None)]
    await world.until(shop.is_committed, within_ms=1_000)
