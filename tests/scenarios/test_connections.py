"""Who is connected to a broker, and what it asks of clients for others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, ProducerData, SubscriptionData
from staticfire.protocol.requests.connections import (
    CheckClientConfig,
    ClientConfig,
    ConsumedDirectly,
    ConsumedDirectlyAnswer,
    ConsumeDirectly,
    ConsumerRunningInfo,
    GetAllProducers,
    GetConsumerConnections,
    GetConsumerRunningInfo,
    GetProducerConnections,
    ProcessQueueInfo,
    QueryGroupsOfTopic,
    QuerySubscription,
    QueryTopicsOfGroup,
    RunningInfoAnswer,
)
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.offsets import UpdateConsumerOffset
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand

INFO = ConsumerRunningInfo(
    {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
    [SubscriptionData("orders")],
    {MessageQueue("orders", "broker-a", 0): ProcessQueueInfo(commit_offset=7, droped=True)},
)


class Client:
    """A member of the group billing that also produces, and that answers what it is asked."""

    def __init__(self, world: SimulatedWorld, codec_byte: int = 2, client_id: str = "c1") -> None:
        self._client_id = client_id
        self.dispatcher = Dispatcher()
        self.dispatcher.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, lambda call: None)
        self._pool = ConnectionPool(world.machine("consumer", "10.0.0.20"), self.dispatcher, codec_byte=codec_byte)

    def answers(self, code: RequestCode, answer: Callable[[Any], Answer | None]) -> None:
        def handle(call: Call) -> Answer | None:
            return answer(call.request)

        self.dispatcher.handle(code, handle)

    async def start(self) -> "Client":
        consumer = ConsumerData(
            "billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [SubscriptionData("orders")]
        )
        body = HeartbeatData(self._client_id, [ProducerData("makers")], [consumer])
        assert (await self._pool.ask(ADDRESS, Heartbeat(body=body), 3_000)).code == 0
        return self

    async def stop(self) -> None:
        await self._pool.close()


async def test_members_of_a_group_are_shown(world: SimulatedWorld, stand: BrokerStand) -> None:
    client = await Client(world).start()
    shown = (await stand.ask(GetConsumerConnections("billing"))).body
    assert [(one.client_id, one.language, one.version) for one in shown.connection_set] == [("c1", "PYTHON", 479)]
    assert shown.connection_set[0].client_addr.startswith("10.0.0.20:")
    assert (shown.consume_type, shown.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert list(shown.subscription_table) == ["orders"]
    producers = (await stand.ask(GetProducerConnections("makers"))).body
    assert [one.client_id for one in producers.connection_set] == ["c1"]
    everybody = (await stand.ask(GetAllProducers())).body.data
    assert [(one.client_id, one.language) for one in everybody["makers"]] == [("c1", "PYTHON")]
    assert 0 <= world.machine("client").clock.wall_ms() - everybody["makers"][0].last_update_timestamp < 1_000
    await client.stop()


async def test_an_absent_member_is_reported(stand: BrokerStand) -> None:
    answer = await stand.ask(GetConsumerConnections("billing"))
    assert (answer.code, answer.remark) == (ResponseCode.CONSUMER_NOT_ONLINE, "the consumer group[billing] not online")
    answer = await stand.ask(GetProducerConnections("makers"))
    assert (answer.code, answer.remark) == (1, "the producer group[makers] not exist")
    assert (await stand.ask(GetAllProducers())).body.data == {}
    answer = await stand.ask(GetConsumerRunningInfo("billing", "c1"))
    assert (answer.code, answer.remark) == (1, "The Consumer <billing> <c1> not online")


async def test_who_consumes_what(world: SimulatedWorld, stand: BrokerStand) -> None:
    client = await Client(world).start()
    await stand.put_topic("orders")
    await stand.put_group("audit")
    await stand.ask(UpdateConsumerOffset("audit", "orders", 0, 1))
    assert (await stand.ask(QueryGroupsOfTopic("orders"))).body.group_list == ["audit", "billing"]
    topics = (await stand.ask(QueryTopicsOfGroup("audit"))).body
    assert (topics.topic_list, topics.broker_addr) == (["orders"], ADDRESS)
    found = (await stand.ask(QuerySubscription("billing", "orders"))).body
    assert (found.group, found.topic, found.subscription_data.sub_string) == ("billing", "orders", "*")
    assert (await stand.ask(QuerySubscription("audit", "orders"))).body.subscription_data is None
    await client.stop()


@pytest.mark.parametrize("client_codec", [0, 2])
@pytest.mark.parametrize("tool_codec", [0, 2])
async def test_a_client_reports_what_it_does_through_its_broker(
    world: SimulatedWorld, stand: BrokerStand, client_codec: int, tool_codec: int
) -> None:
    client = Client(world, client_codec)
    client.answers(RequestCode.GET_CONSUMER_RUNNING_INFO, lambda request: RunningInfoAnswer(body=INFO))
    await client.start()
    tool = ConnectionPool(world.machine("tool", "10.0.0.30"), codec_byte=tool_codec)
    answer = await tool.ask(ADDRESS, GetConsumerRunningInfo("billing", "c1"), 3_000)
    assert (answer.code, answer.body) == (0, INFO)
    await tool.close()
    await client.stop()


@pytest.mark.row("C4")
@pytest.mark.parametrize("client_codec", [0, 2])
async def test_a_client_consumes_one_message_now(world: SimulatedWorld, stand: BrokerStand, client_codec: int) -> None:
    sent = await stand.send("orders", b"a")
    client = Client(world, client_codec)
    bodies: list[bytes] = []

    def consume(request: ConsumeDirectly) -> Answer:
        bodies.extend(record.body for record in request.body.records)
        return ConsumedDirectlyAnswer(body=ConsumedDirectly(consume_result="CR_SUCCESS", spent_time_mills=3))

    client.answers(RequestCode.CONSUME_MESSAGE_DIRECTLY, consume)
    await client.start()
    answer = await stand.ask(ConsumeDirectly("billing", "c1", sent.msg_id))
    assert (answer.code, answer.body.consume_result, bodies) == (0, "CR_SUCCESS", [b"a"])
    answer = await stand.ask(ConsumeDirectly("billing", "c1", "nonsense"))
    assert (answer.code, bodies) == (1, [b"a"])
    await client.stop()


async def test_a_client_that_says_nothing_is_given_up(world: SimulatedWorld, stand: BrokerStand) -> None:
    client = Client(world)
    client.answers(RequestCode.GET_CONSUMER_RUNNING_INFO, lambda request: None)
    await client.start()
    answer = await stand.ask(GetConsumerRunningInfo("billing", "c1"))
    assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert "<billing> <c1> Timeout" in answer.remark
    requested = asyncio.ensure_future(stand.ask(GetConsumerRunningInfo("billing", "c1")))
    await world.run_for(seconds=1)
    await client.stop()
    assert (await requested).code == 1


async def test_a_client_without_conditions_can_start(stand: BrokerStand) -> None:
    assert (await stand.ask(CheckClientConfig())).code == 0
    assert (await stand.ask(CheckClientConfig(body=ClientConfig("c", "billing", SubscriptionData("orders"))))).code == 0


async def test_who_gives_up_a_connection_leaves_no_failure_behind(world: SimulatedWorld) -> None:
    """The world tells of an exception that nobody has heard."""
    world.machine("server", "10.0.0.2")
    pool = ConnectionPool(world.machine("client", "10.0.0.3"))
    asking = asyncio.create_task(pool.connection("10.0.0.2:9876"))
    await asyncio.sleep(0)
    asking.cancel()
    await world.run_for(seconds=10)
    await pool.close()
