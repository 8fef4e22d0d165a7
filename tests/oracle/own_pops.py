"""Our consumers that pop, on a real RocketMQ: what they take, acknowledge and put off, its broker has to understand."""

import time
from collections import Counter

from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeFromWhere,
    Message,
    MessageQueue,
    PoppedMessage,
    Producer,
    ProducerSettings,
    SimpleConsumer,
    SimpleSettings,
)

CLIENT = ClientSettings(protocol="rocketmq")
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
        Admin(namesrv, CLIENT) as admin,
        Producer("own-shop", namesrv, ProducerSettings(client=CLIENT)) as sender,
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
        Admin(namesrv, CLIENT) as admin,
        Producer("own-shop", namesrv, ProducerSettings(client=CLIENT)) as sender,
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
    assert 4 <= came[b"lost"] <= 4 + LATE_S, came
    assert 12 <= came[b"longer"] <= 12 + LATE_S, came
    return ", ".join(f"{body.decode()} after {seconds:.1f} s" for body, seconds in came.items())


async def received_by_filter(namesrv: str, topic: str, group: str) -> str:
    """By tags, two of which look the same to the broker, and by a condition."""
    async with Producer("own-shop", namesrv, ProducerSettings(client=CLIENT)) as sender:
        for number, tag in enumerate(("AaAa", "BBBB", "x", "AaAa")):
            properties = {"price": str(number * 100)}
            await sender.send(Message(topic, b"%d" % number, tags=tag, properties=properties))
        async with simple(namesrv, group, topic, expression="AaAa || y") as consumer:
            found = {message.body for message in await receive_all(consumer, 2)}
        async with simple(namesrv, f"{group}-sql", topic, expression="price > 150", kind="SQL92") as consumer:
            costly = {message.body for message in await receive_all(consumer, 2)}
    assert (found, costly) == ({b"0", b"3"}, {b"2", b"3"}), (found, costly)
    return "2 of 4 by tags, one of another tag of the same hash code unseen; 2 of 4 by a condition"
