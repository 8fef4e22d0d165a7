"""What administrators ask of consumers, by way of their brokers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import (
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    OrderedContext,
    OrderedStatus,
    PushConsumer,
    ReceivedMessage,
)
from staticfire.client.cluster.queues import MessageQueue as ClientQueue
from staticfire.client.consume.membership.admin_requests import AdminRequests
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.requests.connections import ConsumedDirectly, ConsumeDirectly, GetConsumerRunningInfo
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.reset_offset import GetConsumerStatus, ResetClientOffset, ResetOffsetBody
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios import ordering
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Shop, forever, taking
from tests.scenarios.ordering import Ordering

pytestmark = BOTH_PROTOCOLS
QUEUE = MessageQueue(TOPIC, "broker-a", 2)


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, request.param)
    yield await shop.open()
    await shop.close()


async def ask(shop: Shop, request: Request) -> Answer:
    """Ask the broker, as an administrator does."""
    return await shop.producer.client.pool.ask("10.0.1.1:10911", request, 20_000)


async def consume_directly(shop: Shop, consumer: PushConsumer, body: bytes = b"again") -> ConsumedDirectly:
    """Store a message where nobody gets it, and let one consumer have it now."""
    message_id = (await shop.producer.send(Message("elsewhere", body))).offset_message_id
    request = ConsumeDirectly(consumer.group, consumer.client.client_id, message_id)
    answer = await ask(shop, request)
    assert (answer.code, answer.remark) == (0, None)
    reported: ConsumedDirectly = answer.body
    return reported


async def test_a_consumer_reports_what_it_does(shop: Shop) -> None:
    consumer = await shop.start("one", reaction=forever)
    await shop.send(b"a", b"b", b"c", queue=2)
    await shop.until_heard(3)
    answer = await ask(shop, GetConsumerRunningInfo(GROUP, consumer.client.client_id, True))
    info = answer.body
    assert (info.properties["PROP_CONSUME_TYPE"], info.properties["PROP_CONSUMEORDERLY"]) == (
        "CONSUME_PASSIVELY",
        "false",
    )
    assert [data.topic for data in info.subscription_set] == [TOPIC, f"%RETRY%{GROUP}"]
    assert len(info.mq_table) == len(consumer.assignment) == 5
    held = info.mq_table[QUEUE]
    assert (held.cached_msg_count, held.cached_msg_min_offset, held.cached_msg_max_offset) == (3, 0, 2)
    assert (held.commit_offset, held.droped, held.last_pull_timestamp > 0) == (0, False, True)
    assert f"listener of {GROUP}" in info.jstack
    quiet = await ask(shop, GetConsumerRunningInfo(GROUP, consumer.client.client_id))
    assert quiet.body.jstack is None


async def test_a_consumer_reports_its_offsets(shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.send(b"a", b"b", queue=2)
    await shop.until_heard(2)
    answer = await ask(shop, GetConsumerStatus(TOPIC, GROUP))
    assert answer.body.consumer_table[consumer.client.client_id][QUEUE] == 2
    assert answer.body.message_queue_table == {}


@pytest.mark.row("C4")
async def test_one_message_is_consumed_now_and_no_offset_moves(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one", reaction=taking(world, 70))
    reported = await consume_directly(shop, consumer)
    assert (reported.consume_result, reported.order, reported.spent_time_mills) == ("CR_SUCCESS", False, 70)
    [heard] = shop.heard
    assert (heard.message.body, heard.message.topic, heard.context.queue.broker_name) == (
        b"again",
        "elsewhere",
        "broker-a",
    )
    assert max(shop.committed(queue) for queue in range(4)) <= 0


@pytest.mark.row("C4")
async def test_the_results_of_the_listener_are_reported(shop: Shop) -> None:
    async def say(heard: Heard) -> ConsumeStatus | None:
        if heard.message.body == b"raise":
            raise ValueError("no such order")
        return ConsumeStatus.RECONSUME_LATER if heard.message.body == b"later" else None

    consumer = await shop.start("one", reaction=say)
    assert (await consume_directly(shop, consumer, b"later")).consume_result == "CR_LATER"
    assert (await consume_directly(shop, consumer, b"none")).consume_result == "CR_RETURN_NULL"
    reported = await consume_directly(shop, consumer, b"raise")
    assert (reported.consume_result, reported.remark) == ("CR_THROW_EXCEPTION", "ValueError('no such order')")
    assert shop.ends(f"%RETRY%{GROUP}")["broker-a", 0] == 0


async def test_ordered_consumers_and_plain_functions_are_called_too(world: SimulatedWorld, shop: Shop) -> None:
    ordered = shop.consumer("ordered", group="in-order")

    @ordered.ordered_listener
    def commit(messages: tuple[ReceivedMessage, ...], context: OrderedContext) -> OrderedStatus:
        context.auto_commit = False
        return OrderedStatus.COMMIT

    await world.start("ordered", ordered)
    reported = await consume_directly(shop, ordered)
    assert (reported.consume_result, reported.order, reported.auto_commit) == ("CR_COMMIT", True, False)
    info = (await ask(shop, GetConsumerRunningInfo("in-order", ordered.client.client_id))).body
    assert info.mq_table[QUEUE].locked
    assert info.properties["PROP_CONSUMEORDERLY"] == "true"


async def test_members_that_are_notified_continue_elsewhere(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"a", b"b", b"c", queue=2)
    consumer = await shop.start("one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await shop.until_heard(3)
    offsets = {MessageQueue(TOPIC, "broker-a", 2): 1, MessageQueue("others", "broker-a", 0): 7}
    groups = shop.brokers["broker-a"].tables.groups
    [member] = groups.consumers.consumer_table[GROUP].channel_info_table.values()
    member.connection.tell(ResetClientOffset(TOPIC, GROUP, 0, body=ResetOffsetBody(offsets)))
    await shop.until_heard(5)
    await world.run_for(seconds=3)
    assert shop.bodies == [b"a", b"b", b"c", b"b", b"c"]
    assert shop.committed(2) == 3
    assert len(consumer.assignment) == 5


async def test_a_group_that_is_not_here_is_named(shop: Shop) -> None:
    consumer = await shop.start("one")
    AdminRequests.of(consumer.client).consumers.clear()
    answer = await ask(shop, GetConsumerRunningInfo(GROUP, consumer.client.client_id))
    assert (answer.code, answer.remark) == (1, f"The Consumer Group <{GROUP}> not exist in this consumer")
    assert (await ask(shop, GetConsumerStatus(TOPIC, GROUP))).body.consumer_table[consumer.client.client_id] == {}


async def test_the_next_offset_outlives_an_ordered_listener_that_runs(world: SimulatedWorld, shop: Shop) -> None:
    """The queue leaves when its listener is over, and where that one has come to doesn't count any more."""
    group = Ordering(shop)
    consumer = await group.start("one", ordering.taking(world, 2_000))
    await shop.send(*[b"%d" % number for number in range(6)], queue=0)
    await group.until(1)
    queue = ClientQueue(TOPIC, "broker-a", 0)
    await AdminRequests.of(consumer.client).consumers[GROUP].go_on_at({queue: 4})
    await world.until(shop.is_committed)
    assert group.bodies == [b"0", b"4", b"5"]
    await world.stop("one")
