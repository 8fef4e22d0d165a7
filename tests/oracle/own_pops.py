"""Our consumers that pop, on a real RocketMQ: what they take, acknowledge and put off, its broker has to understand."""

import asyncio
import time
from collections import Counter
from typing import Any

from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageQueue,
    PoppedMessage,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    SimpleConsumer,
    SimpleSettings,
)
from staticfire.client.consume.membership.rebalance_loop import RebalanceLoop
from tests.oracle.patience import BUSY_S, CLIENT, SENDS, TIMEOUT_MS

INVISIBLE_MS = 2_000
LATE_S = 6
# RocketMQ brings a message again two to three and a half seconds after its invisible time.
QUIET_MS = 5_000


def simple(namesrv: str, group: str, *topics: str, expression: str = "*", kind: str = "TAG") -> SimpleConsumer:
    settings = SimpleSettings(client=CLIENT, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = SimpleConsumer(group, namesrv, settings)
    for topic in topics:
        consumer.subscribe(topic, expression, kind)
    return consumer


async def receive_all(consumer: SimpleConsumer, count: int, invisible_ms: int = 60_000) -> list[PoppedMessage]:
    """Receive until so many messages are there."""
    messages: list[PoppedMessage] = []
    while len(messages) < count:
        messages += await consumer.receive(32, invisible_ms)
    return messages


async def receive_and_acknowledge(namesrv: str, topic: str, group: str) -> str:
    """Two topics, two members: each message once, and none again."""
    topics = [topic, f"{topic}-too"]
    async with (
        Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin,
        Producer("own-shop", namesrv, SENDS) as sender,
    ):
        for each in topics:
            await admin.create_topic(each, queues=3)
            await sender.send_many([Message(each, b"%d" % number) for number in range(60)])
        async with simple(namesrv, group, *topics) as one, simple(namesrv, group, *topics) as two:
            seen: Counter[tuple[str, bytes]] = Counter()
            while sum(seen.values()) < 120:
                for consumer in (one, two):
                    messages = await consumer.receive(7, INVISIBLE_MS, await_ms=500)
                    seen.update((message.topic, message.body) for message in messages)
                    await consumer.ack_all(messages[1:])
                    for message in messages[:1]:
                        await consumer.ack(message)
            assert set(seen.values()) == {1}, seen.most_common(3)
            assert await one.receive(await_ms=INVISIBLE_MS + LATE_S * 1000) == [], "an acknowledged message came again"
            began_s = time.monotonic()
            await sender.send(Message(topic, b"late"))
            [late] = await receive_all(one, 1)
            await one.ack(late)
    return (
        f"120 messages of two topics, once each; a new one is there after {(time.monotonic() - began_s) * 1000:.0f} ms"
    )


async def invisible_times(namesrv: str, topic: str, group: str) -> str:
    """What isn't acknowledged comes again; more time puts that off, and 0 lets it come now."""
    async with (
        Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin,
        Producer("own-shop", namesrv, SENDS) as sender,
    ):
        await admin.create_topic(topic, queues=1)
        queue = MessageQueue(topic, "broker-a", 0)
        for tag in ("done", "lost", "longer", "now"):
            await sender.send(Message(topic, tag.encode(), tags=tag), queue=queue)
        async with simple(namesrv, group, topic) as consumer:
            first = {message.body: message for message in await receive_all(consumer, 4, invisible_ms=4_000)}
            began_s = time.monotonic()
            await consumer.change_invisible(first[b"longer"], 12_000)
            await consumer.change_invisible(first[b"now"], 0)
            await consumer.ack(first[b"done"])
            came: dict[bytes, float] = {}
            while len(came) < 3:
                for message in await consumer.receive(await_ms=1_000):
                    assert message.body not in came, (message, came)
                    came[message.body] = time.monotonic() - began_s
                    assert (message.reconsume_times, message.topic) == (1, topic), message
                    assert message.first_popped_ms > 0
                    await consumer.ack(message)
    assert list(came) == [b"now", b"lost", b"longer"], came
    assert 4 <= came[b"lost"] <= 4 + BUSY_S, came
    assert 12 <= came[b"longer"] <= 12 + BUSY_S, came
    return ", ".join(f"{body.decode()} after {seconds:.1f} s" for body, seconds in came.items())


async def received_by_filter(namesrv: str, topic: str, group: str) -> str:
    """By tags, two of which look the same to the broker, and by a condition."""
    async with Producer("own-shop", namesrv, SENDS) as sender:
        for number, tag in enumerate(("AaAa", "BBBB", "x", "AaAa")):
            properties = {"price": str(number * 100)}
            await sender.send(Message(topic, b"%d" % number, tags=tag, properties=properties))
        async with simple(namesrv, group, topic, expression="AaAa || y") as consumer:
            found = {message.body for message in await receive_all(consumer, 2)}
        async with simple(namesrv, f"{group}-sql", topic, expression="price > 150", kind="SQL92") as consumer:
            costly = {message.body for message in await receive_all(consumer, 2)}
    assert (found, costly) == ({b"0", b"3"}, {b"2", b"3"}), (found, costly)
    return "2 of 4 by tags, one of another tag of the same hash code unseen; 2 of 4 by a condition"


# -- the push consumer -------------------------------------------------------------------------------------------------


def popping(namesrv: str, group: str, topic: str, **settings: Any) -> PushConsumer:
    """Return a member whose queues its brokers assign."""
    chosen = PushSettings(
        client=CLIENT, consume_from_where=ConsumeFromWhere.FIRST_OFFSET, client_rebalance=False, **settings
    )  # fmt: skip
    consumer = PushConsumer(group, namesrv, chosen)
    consumer.subscribe(topic)
    return consumer


class Listened:
    """What the members of a group got, and when."""

    def __init__(self, namesrv: str, topic: str, group: str) -> None:
        self.seen: list[tuple[bytes, int, float]] = []
        self._place = (namesrv, group, topic)
        self._topic = topic
        self._news = asyncio.Condition()

    def member(self) -> PushConsumer:
        consumer = popping(*self._place)
        consumer.listener(self._listen)
        return consumer

    async def _listen(self, messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
        """Fail what is tagged so: "again" once, "bad" for ever."""
        [message] = messages
        assert message.topic == self._topic, message
        async with self._news:
            self.seen.append((message.body, message.reconsume_times, time.monotonic()))
            self._news.notify_all()
        if message.tags == "bad":
            context.delay_level_when_next_consume = -1
            return ConsumeStatus.RECONSUME_LATER
        is_failing = message.tags == "again" and message.reconsume_times == 0
        return ConsumeStatus.RECONSUME_LATER if is_failing else ConsumeStatus.CONSUME_SUCCESS

    async def until(self, count: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: len(self.seen) >= count)

    def at_s(self, body: bytes, reconsume_times: int = 0) -> float:
        return next(at_s for seen, times, at_s in self.seen if (seen, times) == (body, reconsume_times))


async def push_by_pops(namesrv: str, topic: str, group: str) -> str:
    """Three members pop one queue's messages; one is put off, one is buried, and a late one is there at once."""
    listened = Listened(namesrv, topic, group)
    async with (
        Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin,
        Producer("own-shop", namesrv, SENDS) as sender,
    ):
        await admin.create_topic(topic, queues=1)
        await admin.set_consume_mode(topic, group, "POP")
        for number in range(40):
            await sender.send(Message(topic, b"%d" % number, tags={7: "again", 9: "bad"}.get(number, "")))
        async with listened.member() as one, listened.member() as two, listened.member():
            everything = [MessageQueue(topic, "broker-a", -1)]
            for member in (one, two):
                assert [queue for queue in member.assignment if queue.topic == topic] == everything, member.assignment
            sent_s = time.monotonic()
            await sender.send(Message(topic, b"late"))
            await listened.until(42)
        dead = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
        assert await admin.offsets.max_offset(dead) == 1, "one dead letter"
    late_ms = 1_000 * (listened.at_s(b"late") - sent_s)
    times = Counter(body for body, _, _ in listened.seen)
    assert {body: count for body, count in times.items() if count > 1} == {b"7": 2}, times
    again_s = listened.at_s(b"7", 1) - listened.at_s(b"7")
    assert 10 <= again_s <= 10 + LATE_S + BUSY_S, again_s
    return f"41 messages; failed: again after {again_s:.1f} s; one dead letter; late: {late_ms:.0f} ms"


async def pulled_then_popped(namesrv: str, topic: str, group: str) -> str:
    """The mode is changed while a consumer runs, there and back: nothing is missing, and little comes twice."""
    seen: Counter[bytes] = Counter()
    news = asyncio.Condition()
    consumer = popping(namesrv, group, topic)

    @consumer.listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        async with news:
            seen.update(message.body for message in messages)
            news.notify_all()
        return ConsumeStatus.CONSUME_SUCCESS

    async def until_owns(queue_ids: list[int]) -> None:
        """Brokers tell nobody that the mode has changed: ask them now."""
        owns = asyncio.Event()

        def look(*_: object) -> None:
            if [queue.queue_id for queue in consumer.assignment if queue.topic == topic] == queue_ids:
                owns.set()

        consumer.on_queues_changed(look)
        look()
        RebalanceLoop.of(consumer.client).wake()
        await owns.wait()

    async with (
        Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin,
        Producer("own-shop", namesrv, SENDS) as sender,
    ):
        await admin.create_topic(topic, queues=2)
        sent: list[bytes] = []
        async with consumer:
            for mode, queue_ids in (("PULL", [0, 1]), ("POP", [-1]), ("PULL", [0, 1])):
                await admin.set_consume_mode(topic, group, mode)
                await until_owns(queue_ids)
                bodies = [b"%s %d %d" % (mode.encode(), len(sent), number) for number in range(20)]
                for body in bodies:
                    await sender.send(Message(topic, body))
                sent.extend(bodies)
                async with news:
                    await news.wait_for(lambda: set(seen) == set(sent))
    twice = [body for body, times in seen.items() if times > 1]
    # A pop that was still held then takes the first messages, which are pulled, too.
    assert set(twice) <= set(sent[40:]), twice
    return f"pulled, popped, pulled: 60 messages, {len(twice)} of them twice"
