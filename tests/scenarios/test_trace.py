"""Producers and consumers write what they did with each message; it is read back by message id. In simulated time."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import (
    Admin,
    BrokerAnswer,
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from staticfire.client.life.trace_reading import TraceEvent, events_of, read_traces
from staticfire.client.produce.trace_writer import BATCH_MAX
from staticfire.protocol.names import TRACE_TOPIC
from staticfire.protocol.trace import PubTrace, TracedType, decode_traces
from staticfire.runtime.machine import Machine
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import in_both_protocols
from tests.scenarios.test_client import NAMESRV, cluster

TOPIC = "orders"
pytestmark = pytest.mark.row("F3")
BOTH_PROTOCOLS = in_both_protocols("settings", indirect=False)


@pytest_asyncio.fixture
async def machine(world: SimulatedWorld) -> AsyncIterator[Machine]:
    yield await cluster(world)


def traced(settings: ClientSettings | None = None, **choices: object) -> ProducerSettings:
    return ProducerSettings(client=settings or ClientSettings(), enable_trace=True, **choices)  # type: ignore[arg-type]


def consumer(
    machine: Machine, settings: ClientSettings, fails_once: bool = False, trace_topic: str = TRACE_TOPIC
) -> PushConsumer:
    push = PushSettings(
        client=settings, enable_trace=True, trace_topic=trace_topic, consume_from_where=ConsumeFromWhere.FIRST_OFFSET
    )
    made = PushConsumer("billing", NAMESRV, push, machine)
    made.subscribe(TOPIC)

    @made.listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        if fails_once and messages[0].reconsume_times == 0:
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS

    return made


async def events(machine: Machine, message_id: str) -> list[TraceEvent]:
    async with Admin(NAMESRV, machine=machine) as admin:
        return events_of(await read_traces(admin, message_id))


@BOTH_PROTOCOLS
async def test_a_message_is_followed_from_its_producer_through_a_retry(
    world: SimulatedWorld, machine: Machine, settings: ClientSettings
) -> None:
    async with Producer("shop", NAMESRV, traced(settings), machine) as producer:
        sent = await producer.send(Message(TOPIC, b"body", tags="paid", keys="order-7"))
        async with consumer(world.machine("desk", host="10.0.3.1"), settings, fails_once=True):
            await world.run_for(seconds=30)
    found = await events(machine, sent.message_id)
    assert [(event.what, event.group, event.success) for event in found] == [
        ("sent", "shop", True),
        ("consumed", "billing", False),
        ("consumed", "billing", True),
    ]
    assert found[0].words == "to orders at 10.0.1.1:10911, 4 bytes"
    assert found[2].words == "retry 1"
    assert await events(machine, "order-7") == found


async def test_all_roads_of_a_producer_are_traced(world: SimulatedWorld, machine: Machine) -> None:
    async with Producer("shop", NAMESRV, traced(), machine) as producer:
        queue = (await producer.queues(TOPIC))[0]
        one = await producer.send(Message(TOPIC, b"one"))
        ordered = await producer.send(Message(TOPIC, b"ordered"), queue=queue)
        posted = await producer.post(Message(TOPIC, b"posted", delay_level=1))
        many = await producer.send_many([Message(TOPIC, b"many"), Message("invoices", b"many")])
        batch = await producer.send_batch([Message(TOPIC, b"a"), Message(TOPIC, b"b")])
    async with Admin(NAMESRV, machine=machine) as admin:
        messages = await admin.find(one.message_id, TRACE_TOPIC)
        kinds = {
            trace.message_id: trace.kind
            for result in (one, ordered, posted, *many)
            for message in await admin.find(result.message_id, TRACE_TOPIC)
            for trace in decode_traces(message.body.decode())
            if isinstance(trace, PubTrace)
        }
        in_batch = await admin.find(batch.message_id.split(",")[1], TRACE_TOPIC)
    assert messages[0].topic == TRACE_TOPIC
    assert kinds[one.message_id] == TracedType.NORMAL
    assert kinds[ordered.message_id] == TracedType.ORDER
    assert kinds[posted.message_id] == TracedType.DELAY
    assert {result.message_id for result in many} <= kinds.keys()
    assert len(in_batch) == 1


async def test_a_transaction_is_traced_with_its_end(world: SimulatedWorld, machine: Machine) -> None:
    def check(_: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    async with TransactionProducer("shop", NAMESRV, traced(), machine, check=check) as producer:
        result = await producer.send_in_transaction(
            Message(TOPIC, b"x"), lambda _message, _argument: TransactionState.UNKNOWN
        )
        await world.run_for(seconds=10)
    found = await events(machine, result.sent.message_id)
    assert [event.what for event in found] == ["sent", "transaction: UNKNOWN", "transaction: COMMIT"]
    assert found[2].words == "checked by the broker"


@BOTH_PROTOCOLS
async def test_recalls_are_traced_those_in_vain_too(
    world: SimulatedWorld, machine: Machine, settings: ClientSettings
) -> None:
    async with Producer("shop", NAMESRV, traced(settings), machine) as producer:
        regretted = await producer.send(Message(TOPIC, b"x", delay_ms=60_000))
        late = await producer.send(Message(TOPIC, b"y", delay_ms=2_000))
        await producer.recall(TOPIC, regretted.recall_handle or "")
        await world.run_for(seconds=5)
        with pytest.raises(BrokerAnswer, match="timestamp invalid"):
            await producer.recall(TOPIC, late.recall_handle or "")
    for sent, success in ((regretted, True), (late, False)):
        found = await events(machine, sent.message_id)
        assert [(one.what, one.group, one.success) for one in found] == [
            ("sent", "shop", True),
            ("recalled", "shop", success),
        ]


async def test_nothing_is_written_unless_it_is_requested(world: SimulatedWorld, machine: Machine) -> None:
    async with Producer("shop", NAMESRV, machine=machine) as producer:
        sent = await producer.send(Message(TOPIC, b"quiet"))
        await world.run_for(seconds=10)
    assert await events(machine, sent.message_id) == []


async def test_traces_go_to_the_topic_of_the_settings(world: SimulatedWorld, machine: Machine) -> None:
    desk = world.machine("desk", host="10.0.3.1")
    listening = consumer(desk, ClientSettings(), trace_topic="traces-of-billing")
    async with Producer("shop", NAMESRV, traced(trace_topic="traces-of-shop"), machine) as producer, listening:
        sent = await producer.send(Message(TOPIC, b"x"))
        await world.run_for(seconds=30)
    async with Admin(NAMESRV, machine=machine) as admin:
        for topic, start in (("traces-of-shop", "Pub"), ("traces-of-billing", "SubBefore")):
            [found] = await admin.find(sent.message_id, topic)
            assert found.body.decode().startswith(start)
        assert await admin.find(sent.message_id, TRACE_TOPIC) == []


async def test_traces_without_a_route_delay_no_send(world: SimulatedWorld, machine: Machine) -> None:
    """The trace topic is on a broker that is gone: the sends that are traced don't notice."""
    async with Producer("shop", NAMESRV, traced(trace_topic="no-such-topic-with-traces"), machine) as producer:
        for _ in range(BATCH_MAX * 3):
            await producer.send(Message(TOPIC, b"x"))


@pytest.mark.parametrize("count", [BATCH_MAX - 1, BATCH_MAX, BATCH_MAX + 1])
async def test_a_producer_that_closes_while_traces_are_sent_loses_none(
    world: SimulatedWorld, machine: Machine, count: int
) -> None:
    async with Producer("shop", NAMESRV, traced(), machine) as producer:
        sent = [(await producer.send(Message(TOPIC, b"x"))).message_id for _ in range(count)]
    async with Admin(NAMESRV, machine=machine) as admin:
        found = [message_id for message_id in sent if await admin.find(message_id, TRACE_TOPIC)]
    assert found == sent


async def test_the_traces_of_many_messages_with_keys_are_sent_in_several_messages(
    world: SimulatedWorld, machine: Machine
) -> None:
    async with Producer("shop", NAMESRV, traced(), machine) as producer:
        results = await producer.send_many([Message(TOPIC, b"x", keys=f"{n:040}") for n in range(1_000)])
    async with Admin(NAMESRV, machine=machine) as admin:
        for name in (results[0].message_id, results[-1].message_id, f"{0:040}", f"{999:040}"):
            assert await admin.find(name, TRACE_TOPIC), name


async def test_the_trace_of_a_large_batch_is_found_by_its_first_ids(world: SimulatedWorld, machine: Machine) -> None:
    async with Producer("shop", NAMESRV, traced(), machine) as producer:
        result = await producer.send_batch([Message(TOPIC, b"x") for _ in range(1_000)])
        other = await producer.send(Message("refunds", b"x"))
    first, *_, last = result.message_id.split(",")
    assert len(await events(machine, first)) == 1
    assert len(await events(machine, other.message_id)) == 1
    async with Admin(NAMESRV, machine=machine) as admin:
        assert await admin.find(last, TRACE_TOPIC) == []
