"""Parts of a topic, copied one after the other: what an earlier copy brought is recognised, and what precedes it."""

from typing import Any

import pytest

from staticfire.client import Message, MessageQueue
from staticfire.client.admin.faults import FaultAdmin
from staticfire.client.admin.look_ups import FoundMessages, find_by_key
from staticfire.client.copying import queue_copy
from staticfire.client.copying.copier import CopyWish
from staticfire.faults.parsing import parse_fault
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.imports import ImportAnswer, ImportedMessage, ImportMessages
from staticfire.protocol.times import MessageMs
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, Shop
from tests.scenarios.test_copying import Production, bring, production, shop, stored

__all__ = ["production", "shop"]

pytestmark = pytest.mark.row("S8")

RETRIES = retry_topic(GROUP)
BILLS = "bills"


async def retry(cluster: Shop, *failed: tuple[str, int]) -> None:
    """Store messages in the retry topic, as their broker does after failure number N."""
    name = next(iter(cluster.brokers))
    messages = [
        ImportedMessage(
            b"UNIQ_KEY\x01%b\x02DELAY\x01%d\x02" % (unique_id.encode(), 2 + times), b"x", 7, bytes(8), 0, 0, times
        )
        for unique_id, times in failed
    ]
    request = ImportMessages(RETRIES, 0, body=messages)
    answer = await cluster.admin.client.ask_master(MessageQueue(RETRIES, name, 0), request, 3_000)
    assert isinstance(answer, ImportAnswer), answer


async def retries(cluster: Shop) -> list[tuple[bytes, int]]:
    records = await stored(cluster, MessageQueue(RETRIES, next(iter(cluster.brokers)), 0))
    return [(record.properties[9:11], record.reconsume_times) for record in records]


async def test_later_retries_of_a_message_are_copied_after_its_first(production: Production, shop: Shop) -> None:
    """All of them have the unique id of the message."""
    await production.admin.create_topic(RETRIES, queues=1)
    await retry(production, ("m1", 1), ("m2", 1))
    assert (await bring(production, shop, CopyWish(RETRIES))).copied == 2
    await retry(production, ("m1", 2), ("m3", 1), ("m2", 2))
    assert (await bring(production, shop, CopyWish(RETRIES, limit=3))).copied == 3
    assert await retries(shop) == [(b"m1", 1), (b"m2", 1), (b"m1", 2), (b"m3", 1), (b"m2", 2)]


async def test_a_retry_that_precedes_one_that_was_copied_is_refused(production: Production, shop: Shop) -> None:
    await production.admin.create_topic(RETRIES, queues=1)
    await retry(production, ("m1", 1), ("m2", 1), ("m1", 2))
    assert (await bring(production, shop, CopyWish(RETRIES, limit=2))).copied == 2
    with pytest.raises(UsageError, match=r"at offset 1 of .* at offset 0"):
        await bring(production, shop, CopyWish(RETRIES))
    assert await retries(shop) == [(b"m2", 1), (b"m1", 2)]


async def send_bills(cluster: Shop, count: int) -> None:
    for number in range(count):
        await cluster.producer.send(Message(BILLS, b"%d" % number))


async def in_three_times(world: SimulatedWorld, production: Production) -> list[MessageMs]:
    """Send messages before, between and after two times; return these times."""
    times_ms = []
    await production.admin.create_topic(BILLS, queues=1)
    for count in (5, 5, 400):
        await send_bills(production, count)
        await world.run_for(minutes=5)
        times_ms.append(production.brokers["prod-broker-a"].state.clock.message_ms())
        await world.run_for(minutes=5)
    return times_ms[:2]


async def pulls_of(production: Production, wish: CopyWish, shop: Shop) -> tuple[int, int]:
    """Copy; return how many messages were copied, and how many pulls the source got."""
    rules = FaultAdmin(production.admin.client.pool, "10.1.0.1:9876")
    await rules.add(parse_fault({"code": "PULL_MESSAGE", "topic": BILLS, "delay": "1ms"}))
    report = await bring(production, shop, wish)
    return report.copied, (await rules.views())[-1].hit


async def test_the_next_part_is_copied_without_reading_the_rest_of_the_source(
    world: SimulatedWorld, production: Production, shop: Shop
) -> None:
    """Its newest message in the target precedes the part, so none follows it."""
    first_ms, second_ms = await in_three_times(world, production)
    assert (await bring(production, shop, CopyWish(BILLS, until_ms=first_ms))).copied == 5
    wish = CopyWish(BILLS, since_ms=first_ms, until_ms=second_ms)
    assert await pulls_of(production, wish, shop) == (5, 1)


async def test_the_next_part_is_copied_also_after_messages_that_only_the_target_has(
    world: SimulatedWorld, production: Production, shop: Shop
) -> None:
    first_ms, second_ms = await in_three_times(world, production)
    assert (await bring(production, shop, CopyWish(BILLS, until_ms=first_ms))).copied == 5
    await send_bills(shop, 3)
    assert (await bring(production, shop, CopyWish(BILLS, since_ms=first_ms, until_ms=second_ms))).copied == 5


async def test_a_message_that_the_index_of_the_source_lacks_is_found_in_its_queue(
    world: SimulatedWorld, production: Production, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a later one, which must not be overlooked because an earlier one is in the index."""
    first_ms, second_ms = await in_three_times(world, production)
    assert (await bring(production, shop, CopyWish(BILLS, until_ms=first_ms))).copied == 5
    assert (await bring(production, shop, CopyWish(BILLS, limit=1))).copied == 1
    answers = [FoundMessages([])]  # RocketMQ's index is written after the message, and can be lost.

    async def find(*look_up: Any) -> FoundMessages:
        return answers.pop() if answers else await find_by_key(*look_up)

    monkeypatch.setattr(queue_copy, "find_by_key", find)
    with pytest.raises(UsageError, match="could only be appended after it"):
        await bring(production, shop, CopyWish(BILLS, since_ms=first_ms, until_ms=second_ms))
    assert not answers


@pytest.mark.parametrize("own", [0, 3, 32])
async def test_a_part_before_one_that_was_copied_is_refused(
    world: SimulatedWorld, production: Production, shop: Shop, own: int
) -> None:
    first_ms, second_ms = await in_three_times(world, production)
    assert (await bring(production, shop, CopyWish(BILLS, limit=10))).copied == 10
    await send_bills(shop, own)
    for wish in (CopyWish(BILLS, until_ms=first_ms), CopyWish(BILLS, since_ms=first_ms, until_ms=second_ms)):
        with pytest.raises(UsageError, match="could only be appended after it"):
            await bring(production, shop, wish)
    assert await shop.admin.max_offset(MessageQueue(BILLS, "broker-a", 0)) == 10 + own


@pytest.mark.parametrize("fault", [{"drop": "request"}, {"answer": "QUERY_NOT_FOUND"}])
async def test_a_look_up_that_fails_leaves_nothing_unchecked(
    world: SimulatedWorld, production: Production, shop: Shop, fault: dict[str, str]
) -> None:
    first_ms, _ = await in_three_times(world, production)
    assert (await bring(production, shop, CopyWish(BILLS, limit=10))).copied == 10
    rules = FaultAdmin(production.admin.client.pool, "10.1.0.1:9876")
    await rules.add(parse_fault({"code": "QUERY_MESSAGE", **fault}))
    with pytest.raises(UsageError, match="could only be appended after it"):
        await bring(production, shop, CopyWish(BILLS, until_ms=first_ms))
