"""Programs in namespaces use plain names, on a cluster that knows the whole ones."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import (
    Admin,
    ClientError,
    ClientSettings,
    ClusterClient,
    ConsumeFromWhere,
    ConsumeStatus,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    OrderedStatus,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    SimpleConsumer,
    SimpleSettings,
    TransactionProducer,
    TransactionState,
    by_hash,
)
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.protocols import NAMES
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, failing

pytestmark = pytest.mark.row("C2")

WHOLE = f"ns%{TOPIC}"
IN_NS = ClientSettings(namespace="ns")
BOTH_PROTOCOLS = pytest.mark.parametrize(
    "shop",
    first_and_slow([ClientSettings(namespace="ns", protocol="rocketmq"), IN_NS]),
    indirect=True,
    ids=NAMES,
)


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """A producer and consumers in a namespace, and an administrator, who has none: ns%orders is there."""
    shop = Shop(world, getattr(request, "param", IN_NS))
    await shop.open(brokers=1)
    await shop.admin.create_topic(WHOLE, queues=4)
    yield shop
    await shop.close()


@BOTH_PROTOCOLS
async def test_messages_are_where_the_whole_name_says_and_programs_see_the_plain_one(shop: Shop) -> None:
    await shop.start("one")
    result = await shop.producer.send(Message(TOPIC, b"single"))
    [batch] = [await shop.producer.send_batch([Message(TOPIC, b"batch")])]
    many = await shop.producer.send_many([Message(TOPIC, b"%d" % number) for number in range(8)])
    chosen = await shop.producer.send(Message(TOPIC, b"ordered"), selector=by_hash, key=1)
    await shop.producer.send_oneway(Message(TOPIC, b"oneway"))
    await shop.producer.send(Message(WHOLE, b"whole"))
    await shop.until_heard(13)
    assert {one.queue.topic for one in (result, batch, chosen, *many)} == {TOPIC}
    assert {message.topic for heard in shop.heard for message in heard.messages} == {TOPIC}
    assert sum(end for (_, _), end in shop.ends(WHOLE).items()) == 13
    assert sum(end for (_, _), end in shop.ends(TOPIC).items()) == 0
    assert {queue.topic for queue in await shop.producer.queues(TOPIC)} == {TOPIC}


async def test_a_new_topic_is_one_of_the_namespace(shop: Shop) -> None:
    await shop.producer.send(Message("fresh", b"1"))
    topics = shop.brokers["broker-a"].tables.topics.topics
    assert "ns%fresh" in topics
    assert "fresh" not in topics


@BOTH_PROTOCOLS
async def test_retries_and_dead_letters_are_the_namespaces_and_their_messages_have_plain_topics(
    world: SimulatedWorld, shop: Shop
) -> None:
    seen = []

    async def fail(heard: Heard) -> ConsumeStatus:
        seen.append((heard.message.topic, heard.message.reconsume_times))
        return await failing(99)(heard) or ConsumeStatus.RECONSUME_LATER

    await shop.start("one", fail, max_reconsume_times=2)
    await shop.send(b"bad")
    await world.run_for(minutes=3)
    assert seen == [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)]
    tables = shop.brokers["broker-a"].tables
    assert {"%RETRY%ns%billing", "%DLQ%ns%billing"} <= set(tables.topics.topics)
    assert "ns%billing" in tables.groups.configs.groups
    assert GROUP not in tables.groups.configs.groups
    [dead] = [end for end in shop.ends("%DLQ%ns%billing").values() if end]
    assert dead == 1


async def test_a_message_that_its_broker_does_not_take_back_goes_to_the_namespaces_retries_elsewhere(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start_broker("broker-b", "10.0.1.2")

    async def lose_the_broker(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times:
            return ConsumeStatus.CONSUME_SUCCESS
        world.kill("broker-a")
        return ConsumeStatus.RECONSUME_LATER

    await shop.start("one", lose_the_broker)
    await shop.producer.send(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, "broker-a", 0))
    await world.run_for(minutes=1)
    assert [(heard.message.topic, heard.message.reconsume_times) for heard in shop.heard] == [(TOPIC, 0), (TOPIC, 1)]
    assert shop.heard[-1].message.get("RETRY_TOPIC") == WHOLE
    [stored] = [end for (broker, _), end in shop.ends("%RETRY%ns%billing").items() if broker == "broker-b" and end]
    assert stored == 1


async def test_namespaces_have_nothing_to_do_with_each_other(world: SimulatedWorld, shop: Shop) -> None:
    heard: dict[str, list[bytes]] = {"": [], "ns": [], "other": []}

    async def start(namespace: str) -> PushConsumer:
        settings = PushSettings(client=ClientSettings(namespace=namespace))
        consumer = PushConsumer(GROUP, NAMESRV, settings, world.machine(f"c-{namespace}"))
        consumer.subscribe(TOPIC)

        @consumer.listener
        async def listen(messages: object, context: object) -> ConsumeStatus:
            heard[namespace] += [message.body for message in messages]  # type: ignore[attr-defined]
            return ConsumeStatus.CONSUME_SUCCESS

        return await world.start(f"c-{namespace}", consumer)

    await shop.admin.create_topic(f"other%{TOPIC}", queues=2)
    for namespace in heard:
        await start(namespace)
    for namespace in heard:
        settings = ProducerSettings(client=ClientSettings(namespace=namespace))
        async with Producer("shop", NAMESRV, settings, world.machine(f"p-{namespace}")) as producer:
            await producer.send(Message(TOPIC, namespace.encode() or b"none"))
    await world.run_for(seconds=5)
    assert heard == {"": [b"none"], "ns": [b"ns"], "other": [b"other"]}


async def test_what_a_push_consumer_shows_has_plain_names(shop: Shop) -> None:
    changes: list[tuple[str, int, int]] = []
    consumer = shop.consumer("one")
    consumer.on_queues_changed(lambda topic, queues, own: changes.append((topic, len(queues), len(own))))
    await shop.world.start("one", consumer)
    assert consumer.group == "ns%billing"
    assert {queue.topic for queue in consumer.assignment} == {TOPIC, "%RETRY%billing"}
    assert set(consumer.cached) == set(consumer.assignment)
    assert TOPIC in consumer.statistics
    assert (TOPIC, 4, 4) in changes
    consumer.unsubscribe(TOPIC)
    await shop.world.run_for(seconds=2)
    assert {queue.topic for queue in consumer.assignment} == {"%RETRY%billing"}


async def test_a_queue_is_consumed_in_order(shop: Shop) -> None:
    consumer = PushConsumer("ordered", NAMESRV, PushSettings(client=shop.settings), shop.world.machine("ordered"))
    consumer.subscribe(TOPIC)
    seen: list[tuple[str, bytes]] = []

    @consumer.ordered_listener
    async def listen(messages: object, context: object) -> OrderedStatus:
        seen.extend((message.topic, message.body) for message in messages)  # type: ignore[attr-defined]
        return OrderedStatus.SUCCESS

    await shop.world.start("ordered", consumer)
    for number in range(5):
        await shop.producer.send(Message(TOPIC, b"%d" % number), selector=by_hash, key=7)
    await shop.world.until(lambda: len(seen) == 5)
    assert seen == [(TOPIC, b"%d" % number) for number in range(5)]


async def test_a_lite_pull_consumer(shop: Shop) -> None:
    settings = LitePullSettings(client=shop.settings, auto_commit=False)
    async with LitePullConsumer("audit", NAMESRV, settings, shop.world.machine("audit")) as consumer:
        queues = await consumer.queues(TOPIC)
        assert {queue.topic for queue in queues} == {TOPIC}
        await consumer.assign(queues)
        assert consumer.assignment == queues
        queue = queues[0]
        await shop.producer.send(Message(TOPIC, b"1"), queue=queue)
        await shop.producer.send(Message(TOPIC, b"2"), queue=queue)
        messages = await consumer.poll(5_000) + await consumer.poll(100)
        assert {message.topic for message in messages} == {TOPIC}
        await consumer.seek(queue, 1)
        assert [message.body for message in await consumer.poll(5_000)] == [b"2"]
        await consumer.commit({queue: 2})
        assert await consumer.committed(queue) == 2
        consumer.pause([queue])
        assert consumer.is_paused(queue)
        consumer.resume([queue])
        await consumer.seek_to_begin(queue)
        await consumer.seek_to_end(queue)
        assert await consumer.offset_for_timestamp(queue, 0) == 0
    assert shop.committed(0, WHOLE, "ns%audit") == 2


async def test_a_pull_consumer(shop: Shop) -> None:
    async with PullConsumer("report", NAMESRV, PullSettings(client=shop.settings), shop.world.machine("r")) as reader:
        [queue, *_] = await reader.queues(TOPIC)
        await shop.producer.send(Message(TOPIC, b"1"), queue=queue)
        assert (await reader.min_offset(queue), await reader.max_offset(queue)) == (0, 1)
        assert [message.topic for message in (await reader.pull(queue, 0)).messages] == [TOPIC]
        await shop.admin.create_group("ns%report")
        await reader.commit(queue, 1)
        assert await reader.committed(queue) == 1
        assert await reader.search_offset(queue, 0) == 0
        assert await reader.earliest_stored_ms(queue) is not None


async def test_transactions_recalls_and_replies(shop: Shop) -> None:
    checked: list[str] = []

    def check(message: object) -> TransactionState:
        checked.append(message.topic)  # type: ignore[attr-defined]
        return TransactionState.COMMIT

    await shop.start("one")
    settings = ProducerSettings(client=shop.settings)
    machine = shop.world.machine("teller")
    async with TransactionProducer("teller", NAMESRV, settings, machine, check=check) as teller:
        await teller.send_in_transaction(Message(TOPIC, b"now"), lambda *_: TransactionState.COMMIT)
        await teller.send_in_transaction(Message(TOPIC, b"later"), lambda *_: TransactionState.UNKNOWN)
        await shop.until_heard(1)
        await shop.world.run_for(minutes=2)
        await shop.until_heard(2)
    assert checked == [TOPIC]
    late = await shop.producer.send(Message(TOPIC, b"never", delay_ms=60_000))
    assert late.recall_handle is not None
    assert await shop.producer.recall(TOPIC, late.recall_handle) == late.message_id
    await shop.world.run_for(minutes=2)
    assert shop.bodies == [b"now", b"later"]


async def test_a_request_is_answered(shop: Shop) -> None:
    answers = {"ping": b"pong"}

    async def reply(heard: Heard) -> ConsumeStatus:
        await shop.producer.reply(heard.message, answers[heard.message.body.decode()])
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", reply)
    assert (await shop.producer.request(Message(TOPIC, b"ping"), 3_000)).body == b"pong"


async def test_a_shared_client_has_one_namespace_and_administrators_have_none(shop: Shop) -> None:
    machine = shop.world.machine("both")
    async with (
        ClusterClient(NAMESRV, IN_NS, machine) as client,
        Producer("shared", client=client) as producer,
        Admin(client=client) as admin,
    ):
        result = await producer.send(Message(TOPIC, b"1"))
        whole = result.queue._replace(topic=WHOLE)
        assert await admin.max_offset(whole) == result.queue_offset + 1
        assert WHOLE in await admin.topics()


async def test_a_queue_of_another_topic_and_a_name_that_is_too_long_are_refused(shop: Shop) -> None:
    with pytest.raises(ClientError, match="isn't that of the queue"):
        await shop.producer.send(Message(TOPIC, b"1"), queue=MessageQueue("other%orders", "broker-a", 0))
    with pytest.raises(ClientError, match="longer than topic max length"):
        await shop.producer.send(Message("x" * 126, b"1"))


@BOTH_PROTOCOLS
async def test_who_pops_uses_plain_names(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.set_consume_mode(WHOLE, f"ns%{GROUP}", "POP")
    first = ConsumeFromWhere.FIRST_OFFSET
    member = await shop.start("one", failing(times=1), client_rebalance=False, consume_from_where=first)
    assert MessageQueue(TOPIC, "broker-a", -1) in member.assignment
    await shop.send(b"x", queue=0)
    await shop.until_heard(2)
    assert [(heard.message.topic, heard.message.reconsume_times) for heard in shop.heard] == [(TOPIC, 0), (TOPIC, 1)]
    settings = SimpleSettings(client=shop.settings, consume_from_where=first)
    async with SimpleConsumer("audit", NAMESRV, settings, world.machine("audit", "10.0.5.9")) as consumer:
        consumer.subscribe(TOPIC)
        [message] = await consumer.receive(invisible_ms=1_000)
        await world.run_for(seconds=2)
        [again] = await consumer.receive(invisible_ms=1_000)
        assert [one.topic for one in (message, again)] == [TOPIC, TOPIC]
        await consumer.change_invisible(again, 3_000)
        await consumer.ack_all([again])
        await world.run_for(seconds=5)
        assert await consumer.receive(await_ms=1_000) == []
    await world.run_for(minutes=2)
    assert len(shop.heard) == 2
