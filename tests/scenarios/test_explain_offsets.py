"""Why nothing is consumed: hidden queues, resets, programs that stopped polling, suspended queues, namespaces."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import (
    ConsumeFromWhere,
    MessageModel,
    MessageQueue,
    OrderedStatus,
    PushConsumer,
    PushSettings,
)
from staticfire.client.admin.group_survey import GroupSurvey
from staticfire.client.explain.explanation import Explanation
from staticfire.client.explain.facts import total
from staticfire.client.explain.findings import ExplainFinding
from staticfire.client.explain.gathering import FactsReader
from staticfire.protocol.requests.statistics import GetMetrics
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.simulation.world import SimulatedWorld
from staticfire.testing.progress import queues_left
from tests.cases import first_and_slow
from tests.protocols import NATIVE, ROCKETMQ
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop, failing, forever
from tests.scenarios.polling import Program, lite_pull
from tests.scenarios.test_explain import explained

# The protocol, and whether brokers keep a journal, which isn't the default.
KINDS = first_and_slow([(ROCKETMQ, False), (NATIVE, True)])

pytestmark = [
    pytest.mark.row("S4"),
    pytest.mark.parametrize("shop", KINDS, ids=["rocketmq", "staticfire-journal"], indirect=True),
]


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    settings, journal = request.param
    shop = Shop(world, settings, broker_settings={"journal_enable": journal})
    yield await shop.open(brokers=2, queues=2)
    await shop.close()


def only_cause(found: Explanation) -> ExplainFinding:
    """Return the one cause."""
    assert len(found.causes) == 1, str(found)
    return found.causes[0]


async def shape(shop: Shop, reads: int, writes: int) -> None:
    """Give the topic that many queues on both brokers."""
    for address in (await shop.admin.masters()).values():
        answer = await shop.producer.client.pool.ask(address, UpdateTopic(TOPIC, reads, writes, 6))
        assert answer.code == 0, answer.remark
    await shop.world.run_for(seconds=40)


async def test_fewer_read_than_write_queues(shop: Shop) -> None:
    await shop.start("one")
    await shape(shop, reads=1, writes=4)
    for queue in range(4):
        await shop.send(b"1", b"2", queue=queue)
    await shop.until_heard(2)
    await shop.world.run_for(seconds=20)
    cause = only_cause(await explained(shop))
    assert cause.kind == "QUEUES_NOT_READ"
    assert "orders has 1 read queue and 4 write queues on broker-a" in cause.words
    assert "6 messages" in cause.words
    assert cause.evidence == [f"orders broker-a/{queue}: 2 messages" for queue in (1, 2, 3)]
    assert "staticfire change orders --read-queues 4" in cause.way_out
    await shape(shop, reads=4, writes=4)
    await shop.until_heard(8)
    assert (await explained(shop)).causes == []


async def test_fewer_write_than_read_queues_are_fine(shop: Shop) -> None:
    await shop.start("one")
    await shape(shop, reads=4, writes=1)
    await shop.send(b"1", b"2", queue=0)
    await shop.until_heard(2)
    await shop.world.run_for(seconds=20)
    assert (await explained(shop)).causes == []


async def test_a_reset_that_passed_over_messages(shop: Shop) -> None:
    await shop.start("one")
    await shop.send(*[b"x"] * 4, queue=1)
    await shop.until_heard(4)
    await shop.world.stop("one")
    await shop.send(*[b"x"] * 8, queue=1)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, -1)
    await shop.start("one")
    await shop.world.run_for(seconds=20)
    found = await explained(shop)
    cause = only_cause(found)
    assert cause.kind == "PASSED_OVER"
    assert "billing was reset in orders 20s ago, and 8 messages were skipped" in cause.words
    assert cause.evidence == ["orders broker-a/1: from 4 to 12"]
    assert "resetOffsetByTime -g billing -t orders -s 0" in cause.way_out
    await shop.send(b"new", queue=1)
    await shop.until_heard(5)
    await shop.world.run_for(seconds=20)
    assert (await explained(shop)).causes == [], "it consumes what has come since"


async def test_a_reset_back_is_no_cause_once_all_is_consumed(shop: Shop) -> None:
    await shop.start("one")
    await shop.send(*[b"x"] * 4, queue=1)
    await shop.until_heard(4)
    await shop.world.run_for(seconds=20)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await shop.until_heard(8)
    await shop.world.run_for(seconds=20)
    assert (await explained(shop)).findings == []


async def test_the_pause_after_a_reset(shop: Shop) -> None:
    await shop.start("one")
    await shop.send(*[b"x"] * 8)
    await shop.until_heard(8)
    await shop.world.run_for(seconds=20)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    for after_s in (3, 6, 9):
        await shop.world.run_for(seconds=3)
        cause = only_cause(await explained(shop))
        assert cause.kind == "RESET_PAUSE"
        assert f"billing was reset in orders {after_s}s ago" in cause.words
        assert "its members release its queues and take them again after 10 s" in cause.words
        assert "restart" not in cause.way_out
    await shop.until_heard(16)
    assert (await explained(shop)).causes == []


async def test_a_program_that_stopped_polling(shop: Shop) -> None:
    consumer = lite_pull(shop, "program")
    consumer.subscribe(TOPIC)
    await shop.world.start("program", consumer)
    await shop.world.run_for(seconds=5)
    await shop.send(*[b"x"] * 4, queue=0)
    await shop.send(*[b"x"] * 4, queue=1)
    assert await consumer.poll(2_000)
    await shop.world.run_for(seconds=3)
    assert (await explained(shop)).causes == [], "it may be at work on what it polled"
    await shop.world.run_for(seconds=57)
    cause = only_cause(await explained(shop))
    assert cause.kind == "STOPPED_POLLING"
    assert "last polled 1m ago" in cause.words
    assert "listener" not in cause.words + cause.way_out
    assert "poll" in cause.way_out
    while await consumer.poll(100):
        pass
    await shop.world.run_for(seconds=5)
    await consumer.poll(0)
    await shop.world.run_for(seconds=6)
    assert (await explained(shop)).causes == []


async def test_a_program_that_polls_all_the_time_is_never_said_to_be_stuck(shop: Shop) -> None:
    """It pulls ahead of its polls, and commits what it has polled some seconds later."""
    program = Program(shop, "program", pull_batch_size=1, auto_commit_interval_ms=20_000)
    await program.start()
    await shop.world.run_for(seconds=5)
    for second in range(0, 40, 2):
        await shop.send(*[b"x"] * 6)
        await shop.world.run_for(seconds=2)
        causes = (await explained(shop)).causes
        assert causes == [], f"after {second} s: {causes}"


async def test_a_program_that_polls_slowly_is_not_stuck_either(shop: Shop) -> None:
    consumer = lite_pull(shop, "program", pull_batch_size=1)
    consumer.subscribe(TOPIC)
    await shop.world.start("program", consumer)
    await shop.world.run_for(seconds=5)
    await shop.send(*[b"x"] * 60)
    for second in range(30):
        assert await consumer.poll(1_000)
        await shop.world.run_for(seconds=1)
        causes = (await explained(shop)).causes
        assert causes == [], f"after {second} s: {causes}"


def in_order(shop: Shop, status: OrderedStatus) -> PushConsumer:
    """Return a consumer in order whose listener always answers the same."""
    machine = shop.world.machine("ordered", host="10.0.5.1")
    consumer = PushConsumer(GROUP, NAMESRV, PushSettings(client=shop.settings), machine)
    consumer.subscribe(TOPIC)

    @consumer.ordered_listener
    async def listen(messages: object, context: object) -> OrderedStatus:
        return status

    return consumer


async def test_a_queue_in_order_that_is_suspended_for_ever(shop: Shop) -> None:
    await shop.world.start("ordered", in_order(shop, OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT))
    await shop.send(*[b"x"] * 4, queue=1)
    await shop.world.run_for(seconds=40)
    cause = only_cause(await explained(shop))
    assert cause.kind == "SUSPENDED_QUEUE"
    assert "orders broker-a/1 waits at offset 0, 4 messages behind" in cause.words
    assert "SUSPEND_CURRENT_QUEUE_A_MOMENT" in cause.words
    assert "sentBack" not in cause.way_out, "nothing is sent back while it is consumed in order"


async def lags(shop: Shop) -> list[int]:
    """Return how far the group is behind: in its view, as it is explained, and in the brokers' metrics."""
    masters = await shop.admin.masters()
    view = await GroupSurvey(shop.admin.client, masters, GROUP, 3_000).look()
    facts = await FactsReader(shop.admin, GROUP, None).read()
    answers = [await shop.producer.client.pool.ask(address, GetMetrics()) for address in masters.values()]
    rows = [row for answer in answers for row in answer.body if row.name == "rocketmq_consumer_lag_messages"]
    in_metrics = sum(int(row.value) for row in rows if row.labels["consumer_group"] == GROUP)
    return [view.lag, total(facts.queues()), in_metrics]


async def test_all_count_the_same_lag_of_a_group_that_has_committed_nothing(shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.world.run_for(seconds=5)
    consumer.suspend()
    await shop.send(*[b"x"] * 8)
    await shop.world.run_for(seconds=1)
    assert await lags(shop) == [8, 8, 8]
    shop.world.freeze("one")
    assert await lags(shop) == [8, 8, 8], "brokers know what a silent member subscribes to"


async def test_all_count_the_same_lag_after_a_reset_that_no_member_has_followed(shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.send(*[b"x"] * 8)
    await shop.until_heard(8)
    await shop.world.run_for(seconds=20)
    consumer.suspend()
    await shop.world.run_for(seconds=40)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    await shop.world.run_for(seconds=1)
    assert await lags(shop) == [8, 8, 8]


async def test_a_broadcasting_group_is_as_far_behind_as_its_slowest_member(shop: Shop) -> None:
    await shop.start("one", message_model=MessageModel.BROADCASTING)
    await shop.start("stuck", forever, message_model=MessageModel.BROADCASTING)
    await shop.send(b"1", b"2", b"3", queue=0)
    await shop.until_heard(6)
    await shop.world.run_for(seconds=20)
    assert "billing: 2 members, 3 messages behind in orders" in (await explained(shop)).headline


async def test_a_broadcasting_member_that_began_at_the_end_is_not_behind(shop: Shop) -> None:
    await shop.send(*[b"old"] * 8)
    await shop.start("one", message_model=MessageModel.BROADCASTING, consume_from_where=ConsumeFromWhere.LAST_OFFSET)
    await shop.world.run_for(seconds=1)
    ends = {MessageQueue(TOPIC, name, number): end for (name, number), end in shop.ends().items()}
    assert "no backlog" in (await explained(shop)).headline
    assert queues_left(ends, await shop.admin.group(GROUP)) == []


async def test_a_broadcasting_member_that_has_consumed_nothing_is_behind_by_what_it_holds(shop: Shop) -> None:
    first = ConsumeFromWhere.FIRST_OFFSET
    await shop.send(b"1", b"2", b"3", queue=0)
    await shop.start("one", forever, message_model=MessageModel.BROADCASTING, consume_from_where=first)
    await shop.until_heard(3)
    assert "3 messages behind" in (await explained(shop)).headline


async def test_queues_that_are_not_read_are_not_in_the_lag(shop: Shop) -> None:
    await shop.start("one")
    await shape(shop, reads=1, writes=4)
    for queue in range(4):
        await shop.send(b"1", b"2", queue=queue)
    await shop.world.run_for(seconds=20)
    assert await lags(shop) == [0, 0, 0]
    assert "no backlog, and 6 messages in queues that no consumer reads" in (await explained(shop)).headline


async def test_a_group_of_a_namespace_is_offered_for_its_plain_name(shop: Shop) -> None:
    await shop.start("one", group="tenant-of-the-large-cloud%billing", reaction=failing(0))
    cause = only_cause(await explained(shop))
    assert cause.kind == "UNKNOWN_GROUP"
    assert "is it tenant-of-the-large-cloud%billing?" in cause.words
    assert "staticfire explain tenant-of-the-large-cloud%billing" in cause.way_out
    await shop.start("two", group="audit")
    cause = only_cause(await explained(shop, "tenant-of-the-large-cloud%audit"))
    assert "is it audit?" in cause.words
