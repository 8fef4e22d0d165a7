"""Our consumers that pull, on a real RocketMQ: what `own_client.py` lets them do there."""

from collections.abc import Awaitable

from staticfire.client import (
    Admin,
    ClientError,
    ConsumeFromWhere,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullSettings,
    PullStatus,
)
from staticfire.protocol.requests.connections import GetConsumerRunningInfo
from tests.oracle.patience import CLIENT, SENDS, TIMEOUT_MS

ASK_TIMEOUT_MS = 15_000
SAMPLED_MS = 11_000
# After that a consumer has taken its first sample of how fast it is.


def lite_pull(namesrv: str, group: str, auto_commit: bool = True) -> LitePullConsumer:
    first = ConsumeFromWhere.FIRST_OFFSET
    settings = LitePullSettings(client=CLIENT, consume_from_where=first, auto_commit=auto_commit)
    return LitePullConsumer(group, namesrv, settings)


async def polled(consumer: LitePullConsumer, count: int) -> list[int]:
    """Poll so many messages; return their numbers."""
    numbers: list[int] = []
    while len(numbers) < count:
        messages = await consumer.poll(20_000)
        assert messages, f"{count - len(numbers)} of {count} messages don't come"
        numbers += [int(message.body) for message in messages]
    return numbers


async def refusal(requested: Awaitable[None]) -> str:
    """Return why something is refused."""
    try:
        await requested
    except ClientError as error:
        return str(error)
    raise AssertionError("it isn't refused")


async def poll_assigned(namesrv: str, topic: str, group: str) -> str:
    """Assign, poll, seek, pause, commit: as the program says."""
    async with Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin, Producer("own-shop", namesrv, SENDS) as producer:
        await admin.create_topic(topic, queues=2)
        one, two = (MessageQueue(topic, "broker-a", number) for number in range(2))
        for number in range(40):
            await producer.send(Message(topic, b"%d" % number, tags="odd" if number % 2 else "even"), queue=one)
        async with lite_pull(namesrv, group, auto_commit=False) as consumer:
            await consumer.assign([one, two], {topic: "odd"})
            odd = list(range(1, 40, 2))
            assert await polled(consumer, 20) == odd
            await consumer.commit()
            assert await admin.offsets.committed(group, one) == await consumer.committed(one) == 40
            await consumer.seek(one, 31)
            assert await polled(consumer, 5) == odd[15:]
            await consumer.commit({one: 33})
            assert await admin.offsets.committed(group, one) == 33
            assert "it has the offsets 0 to 40" in await refusal(consumer.seek(one, 41))
            await consumer.seek(two, await consumer.offset_for_timestamp(two, 0))
            consumer.pause([two])
            await producer.send(Message(topic, b"1", tags="odd"), queue=two)
            await producer.send(Message(topic, b"3", tags="odd"), queue=one)
            assert await polled(consumer, 1) == [3]
            consumer.resume([two])
            assert await polled(consumer, 1) == [1]
        async with lite_pull(namesrv, group) as consumer:
            await consumer.assign([one])
            assert await polled(consumer, 8) == [33, 34, 35, 36, 37, 38, 39, 3]
        assert await admin.offsets.committed(group, one) == 41
    return "assigned, filtered, sought, paused, committed"


async def poll_shared(namesrv: str, topic: str, group: str) -> str:
    """Two members share queues; one leaves, and the other has all of them."""
    async with Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin, Producer("own-shop", namesrv, SENDS) as producer:
        await admin.create_topic(topic, queues=4)
        one, two = lite_pull(namesrv, group), lite_pull(namesrv, group)
        for consumer in (one, two):
            consumer.subscribe(topic)
        async with one:
            async with two:
                while (len(one.assignment), len(two.assignment)) != (2, 2):
                    await producer.pause_for(50)
                shares = one.assignment, two.assignment
                assert len({*shares[0], *shares[1]}) == 4, shares
                await producer.send_many([Message(topic, b"%d" % number) for number in range(200)])
                numbers = await polled(one, 100) + await polled(two, 100)
                assert sorted(numbers) == list(range(200)), sorted(numbers)
            while len(one.assignment) != 4:
                await producer.pause_for(50)
            [address] = (await admin.masters()).values()
            await producer.pause_for(SAMPLED_MS)
            request = GetConsumerRunningInfo(group, one.client.client_id)
            answer = await admin.client.pool.ask(address, request, ASK_TIMEOUT_MS)
            reported = answer.body.status_table[topic]
            # 100 messages in the 10 s between two samples, or in more of them on a slow machine.
            assert 0 < reported.pull_tps <= 10, reported
        queues = [MessageQueue(topic, "broker-a", number) for number in range(4)]
        committed = [await admin.offsets.committed(group, queue) for queue in queues]
        assert sum(offset or 0 for offset in committed) == 200, committed
    return "two members, 200 messages, once each; running info tells how fast they were pulled"


async def pull_plainly(namesrv: str, topic: str, group: str) -> str:
    """The plain pull API: offsets are the caller's."""
    async with (
        Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin,
        Producer("own-shop", namesrv, SENDS) as producer,
        PullConsumer(group, namesrv, PullSettings(client=CLIENT)) as puller,
    ):
        await admin.create_topic(topic, queues=1)
        [queue] = await puller.queues(topic)
        assert (await puller.min_offset(queue), await puller.max_offset(queue)) == (0, 0)
        assert (await puller.pull(queue, 0, wait_ms=300)).status is PullStatus.NO_NEW_MSG
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number, tags="paid" if number else ""))
        while await puller.max_offset(queue) < 3:  # RocketMQ lets consumers have them behind the answers to the sends.
            await puller.pause_for(20)
        found = await puller.pull(queue, 0, expression="paid", wait_ms=5_000)
        assert [message.body for message in found.messages] == [b"1", b"2"], found
        assert (await puller.pull(queue, 9)).status is PullStatus.OFFSET_ILLEGAL
        await admin.create_group(group)
        await puller.commit(queue, found.next_offset)
        assert await puller.committed(queue) == 3
        assert await puller.search_offset(queue, found.messages[0].stored_ms) <= 1
    return "pulled, held, filtered, committed, searched by time"
