"""The newest messages of a topic, also of those with a tag only."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import Message, PullConsumer
from staticfire.client.admin import peek
from staticfire.client.admin.peek import peek_messages
from staticfire.protocol.names import TOOLS_GROUP
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import TOPIC, Shop


@pytest_asyncio.fixture
async def reader(shop: Shop) -> AsyncIterator[PullConsumer]:
    async with PullConsumer(TOOLS_GROUP, client=shop.producer.client) as reader:
        yield reader


async def send(shop: Shop, *runs: tuple[str, int]) -> None:
    """Send that many messages with each tag to one queue. The body is the number in the queue."""
    tags = [tag for tag, count in runs for _ in range(count)]
    for number, tag in enumerate(tags):
        await shop.send(b"%d" % number, tags=tag, queue=0)


async def newest(reader: PullConsumer, messages_max: int, tags: str = "*") -> list[int]:
    """Return the numbers of the newest messages."""
    queues = await reader.queues(TOPIC)
    found = await peek_messages(reader, queues, messages_max, last=True, tags=tags)
    return [int(message.body) for message in found]


@BOTH_PROTOCOLS
async def test_the_newest_with_a_tag_are_found_however_many_others_are_newer(shop: Shop, reader: PullConsumer) -> None:
    await send(shop, ("paid", 1), ("other", 400))
    assert await newest(reader, 20, "paid") == [0]
    assert await newest(reader, 1, "paid") == [0]
    assert await newest(reader, 20, "never") == []
    assert await newest(reader, 3) == [398, 399, 400]


@BOTH_PROTOCOLS
@pytest.mark.parametrize("messages_max", [1, 7, 30, 1_000])
async def test_of_more_with_a_tag_the_newest_are_shown(shop: Shop, reader: PullConsumer, messages_max: int) -> None:
    await send(shop, ("other", 5), ("paid", 90), ("other", 50), ("paid", 3), ("other", 40))
    with_tag = [*range(5, 95), *range(145, 148)]
    assert await newest(reader, messages_max, "paid") == with_tag[-messages_max:]
    assert await newest(reader, messages_max, "paid || other") == list(range(188))[-messages_max:]


@BOTH_PROTOCOLS
async def test_a_search_for_a_tag_ends_after_many_messages_and_says_so(
    shop: Shop, reader: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(shop, ("paid", 1), ("other", 250), ("paid", 1), ("other", 149))
    queues = await reader.queues(TOPIC)
    wanted = [
        (400, 2, [251], "only the newest 400 messages of each queue were looked at"),
        (401, 2, [0, 251], ""),
        (149, 2, [], "none of the newest 149 messages of each queue has these tags"),
        (149, 1, [], "none of the newest 149 messages of each queue has these tags"),
        (150, 1, [251], ""),
        (20, 30, [], "none of the newest 30 messages of each queue has these tags"),
    ]
    for searched_max, messages_max, numbers, note in wanted:
        monkeypatch.setattr(peek, "SEARCHED_MAX", searched_max)
        found = await peek_messages(reader, queues, messages_max, last=True, tags="paid")
        assert ([int(message.body) for message in found], found.note) == (numbers, note)
        assert not (await peek_messages(reader, queues, messages_max, last=True)).note


@BOTH_PROTOCOLS
async def test_a_search_for_the_oldest_with_a_tag_ends_after_many_messages_and_says_so(
    shop: Shop, reader: PullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(shop, ("other", 149), ("paid", 1), ("other", 250), ("paid", 1))
    queues = await reader.queues(TOPIC)
    wanted = [
        (400, 2, None, [149], "only the oldest 400 messages of each queue were looked at"),
        (401, 2, None, [149, 400], ""),
        (149, 2, None, [], "none of the oldest 149 messages of each queue has these tags"),
        (150, 1, None, [149], ""),
        (20, 2, 150, [], "none of the 20 messages of each queue from offset 150 on has these tags"),
        (251, 2, 150, [400], ""),
        (20, 2, 390, [400], ""),
    ]
    for searched_max, messages_max, offset, numbers, note in wanted:
        monkeypatch.setattr(peek, "SEARCHED_MAX", searched_max)
        found = await peek_messages(reader, queues, messages_max, offset=offset, tags="paid")
        assert ([int(message.body) for message in found], found.note) == (numbers, note)
        assert not (await peek_messages(reader, queues, 401, offset=offset)).note


async def test_the_newest_of_several_queues_are_the_newest_of_all(shop: Shop, reader: PullConsumer) -> None:
    for number in range(40):
        tags = "paid" if number % 3 == 0 else "other"
        await shop.producer.send(Message(TOPIC, b"%d" % number, tags=tags))
        await shop.world.run_for(5)
    assert await newest(reader, 4, "paid") == [30, 33, 36, 39]
    assert await newest(reader, 4) == [36, 37, 38, 39]
