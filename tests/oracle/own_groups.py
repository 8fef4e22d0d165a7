"""Dead letters and groups of a real RocketMQ, looked at and acted on by our client: checks of `own_client.py`."""

import asyncio

from staticfire.client import (
    Admin,
    BrokerAnswer,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    DeadLetterQueue,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.client.admin.dead_letters import HISTORY, read_history
from tests.oracle.patience import CLIENT, SENDS, TIMEOUT_MS

TRIES = 200
INDEX_S = 1.0
# RocketMQ fills its index of unique ids a moment after it stores a message.


def consumer_of(
    namesrv: str, topic: str, group: str, heard: "asyncio.Queue[ReceivedMessage]", gives_up: bool
) -> PushConsumer:
    settings = PushSettings(client=CLIENT, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer(group, namesrv, settings)
    consumer.subscribe(topic)

    @consumer.listener
    async def listen(messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            heard.put_nowait(message)
        context.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER if gives_up else ConsumeStatus.CONSUME_SUCCESS

    return consumer


async def dead_letters_go_again(namesrv: str, topic: str, group: str) -> str:
    """Let messages die, look at them, and send them again: to their topic, then to their group alone."""
    heard: asyncio.Queue[ReceivedMessage] = asyncio.Queue()
    sending = Producer("own-shop", namesrv, SENDS)
    async with (
        Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin,
        sending as producer,
        DeadLetterQueue(group, namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as dlq,
    ):
        await admin.create_topic(topic, queues=4)
        async with consumer_of(namesrv, topic, group, heard, gives_up=True):
            for number in range(3):
                message = Message(topic, b"%d" % number, tags="paid", keys=["k"], properties={"mine": "yes"})
                await producer.send(message, queue=MessageQueue(topic, "broker-a", 3))
            firsts = [await heard.get() for _ in range(3)]
            for _ in range(TRIES):
                if (await admin.dead_letters()).get(group) == 3:
                    break
                await asyncio.sleep(0.1)  # house: a real broker
        letters = await dlq.letters()
        assert [letter.origin_topic for letter in letters] == [topic] * 3, letters
        assert {letter.message.message_id for letter in letters} == {first.message_id for first in firsts}
        await asyncio.sleep(INDEX_S)  # house: a real broker
        report = await dlq.resend()
        assert report.resent == {topic: 3}, report
        assert (await dlq.resend()).count == 0
        async with consumer_of(namesrv, topic, group, heard, gives_up=False):
            again = [await heard.get() for _ in range(3)]
            assert {one.message_id for one in again} == {first.message_id for first in firsts}
            assert {(one.topic, one.queue_id, one.tags, one.get("mine")) for one in again} == {
                (topic, 3, "paid", "yes")
            }
            assert {read_history(one.get(HISTORY)) for one in again} == {(letter.death,) for letter in letters}
            assert (await dlq.resend(["broker-a/0/1"], only_group=True)).resent == {topic: 1}
            alone = await heard.get()
            assert (alone.topic, alone.reconsume_times, alone.tags) == (topic, 0, "paid")
        assert [letter.is_resent for letter in await dlq.letters()] == [True] * 3
    return "3 died, were shown, sent again once with id, queue and history, one to its group alone"


async def a_group_is_looked_at(namesrv: str, topic: str, group: str) -> str:
    """Look at a group from all sides; what RocketMQ has no journal of, is refused in words."""
    heard: asyncio.Queue[ReceivedMessage] = asyncio.Queue()
    sending = Producer("own-shop", namesrv, SENDS)
    async with Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin, sending as producer:
        await admin.create_topic(topic, queues=4)
        one = consumer_of(namesrv, topic, group, heard, gives_up=False)
        two = consumer_of(namesrv, topic, group, heard, gives_up=False)
        two.subscribe(topic, "paid")
        async with one, two:
            for _ in range(TRIES):
                if all(sum(queue.topic == topic for queue in member.assignment) == 2 for member in (one, two)):
                    break
                await asyncio.sleep(0.1)  # house: a real broker
            await producer.send(Message(topic, b"x", tags="paid"))
            await heard.get()
            await asyncio.sleep(INDEX_S)  # house: a real broker
            view = await admin.group(group)
            held = sorted(queue.queue_id for member in view.members for queue in member.queues if queue.topic == topic)
            assert held == [0, 1, 2, 3], view
            kinds = [warning.kind for warning in view.warnings]
            assert kinds == ["DIFFERENT_SUBSCRIPTIONS"], view.warnings
        try:
            await admin.journal()
        except BrokerAnswer as error:
            return f"2 members with 2 queues each, {kinds[0]}; a journal: {error.remark}"
    raise AssertionError("RocketMQ has a journal")
