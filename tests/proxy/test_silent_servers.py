"""A broker, or the nameserver, is frozen, gone or busy for a moment: other calls go on, and order stays order."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import refusal
from staticfire.protocol.requests.clock import ClockAnswer
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.runtime.dispatcher import Handler
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.grpc_stand import TOPIC, GrpcStand, consumer_settings, resource

pytestmark = pytest.mark.row("G3", "G5")

DEADLINE_S = 3
"""The deadline of sends and acknowledgements in the official clients."""


@pytest_asyncio.fixture
async def two(world: SimulatedWorld) -> AsyncIterator[GrpcStand]:
    stand = await GrpcStand(world, brokers=2, wake_pops_of_returning=True).start()
    yield stand
    await stand.close()


async def in_order(stand: GrpcStand) -> None:
    """Have a group in order, whose member c1 works on the first of three messages."""
    await stand.put_topic(TOPIC, "FIFO", 1)
    await stand.put_group(consume_message_orderly=True, retry_max_times=1)
    await stand.consumer("c1")
    await stand.consumer("c2")
    for number in range(3):
        await stand.send(body=b"%d" % number, message_group="g")
    assert await stand.bodies(client_id="c1", batch_size=1, invisible_s=60) == [b"0"]


@pytest.mark.parametrize("frozen_s", [0.5, 1.5, 2.5, 4])
async def test_a_broker_that_is_frozen_for_a_moment_makes_no_queue_concurrent(
    stand: GrpcStand, frozen_s: float
) -> None:
    await in_order(stand)
    await stand.world.run_for(seconds=2)
    stand.world.freeze("broker-a")
    receiving = asyncio.ensure_future(stand.bodies(client_id="c2", poll_s=15))
    await stand.world.run_for(seconds=frozen_s)
    stand.world.thaw("broker-a")
    assert await receiving == []


@pytest.mark.parametrize("how", ["freeze", "kill"])
async def test_a_group_whose_broker_is_silent_is_as_it_was(stand: GrpcStand, how: str) -> None:
    await in_order(stand)
    await stand.world.run_for(seconds=2)
    getattr(stand.world, how)("broker-a")
    for _ in range(3):
        answer = await stand.stream("c2").settings(consumer_settings())
        assert (answer.subscription.fifo, answer.backoff_policy.max_attempts) == (True, 2)
        await stand.world.run_for(seconds=2)
    if how == "freeze":
        stand.world.thaw("broker-a")


async def test_a_changed_group_is_seen_when_its_broker_answers_again(stand: GrpcStand) -> None:
    await in_order(stand)
    stand.world.freeze("broker-a")
    await stand.world.run_for(seconds=2)
    assert (await stand.stream("c2").settings(consumer_settings())).subscription.fifo
    stand.world.thaw("broker-a")
    await stand.put_group(consume_message_orderly=False)
    await stand.world.run_for(seconds=2)
    assert not (await stand.stream("c2").settings(consumer_settings())).subscription.fifo


@pytest.mark.parametrize(
    ("frozen", "codes"), [("broker-a", {pb.Code.OK, pb.Code.PROXY_TIMEOUT}), ("nameserver", {pb.Code.OK})]
)
async def test_sends_to_other_brokers_are_in_time(two: GrpcStand, frozen: str, codes: set[int]) -> None:
    for broker in ("broker-a", "broker-b"):
        await two.put_topic(TOPIC, "", 4, broker=broker)
    await two.send()
    await two.world.run_for(seconds=2)
    two.world.freeze(frozen)
    seen = []
    for number in range(12):
        async with asyncio.timeout(DEADLINE_S):
            seen.append((await two.send(message_id=f"m{number}")).status.code)
        await two.world.run_for(seconds=1.5)
    two.world.thaw(frozen)
    assert set(seen) == codes
    assert seen.count(pb.Code.OK) >= 6, "half of the queues are those of broker-b"


async def test_settings_with_many_topics_are_answered_in_time(stand: GrpcStand) -> None:
    settings = consumer_settings()
    for topic in (TOPIC, "bills", "letters", "parcels"):
        await stand.put_topic(topic)
        await stand.call("QueryRoute", topic=resource(topic))
        settings.subscription.subscriptions.add(topic=resource(topic))
    await stand.world.run_for(seconds=2)
    stand.world.freeze("nameserver")
    async with asyncio.timeout(DEADLINE_S):
        await stand.stream().settings(settings)
    stand.world.thaw("nameserver")


async def test_a_message_of_another_broker_is_acknowledged_in_time(two: GrpcStand) -> None:
    await two.put_topic(TOPIC, "", 1, broker="broker-b")
    await two.put_topic("other", "", 1, broker="broker-a")
    await two.send("other")
    await two.send(body=b"m", message_id="m")
    await two.consumer("c1")
    [message] = (await two.receive(invisible_s=60)).messages
    two.world.freeze("broker-a")
    await two.world.run_for(seconds=2)
    async with asyncio.timeout(1):
        assert (await two.ack(message)).status.code == pb.Code.OK
    two.world.thaw("broker-a")


async def test_the_time_is_read_without_the_brokers(two: GrpcStand) -> None:
    two.world.freeze("broker-a")
    before_ms = two.world.uptime_ms
    answer = await two.cluster.clock("read")
    assert isinstance(answer, ClockAnswer)
    assert (answer.mode, answer.next_due_ms) == ("real", -1)
    assert two.world.uptime_ms - before_ms < 100
    two.world.thaw("broker-a")


# -- brokers that answer, and refuse ---------------------------------------------------------------------------------

REFUSALS = [ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION]


def refused_at_times(stand: GrpcStand, request_code: RequestCode, code: ResponseCode) -> asyncio.Event:
    """Return the event that has broker-a refuse these requests as long as it is set."""
    is_refused = asyncio.Event()

    def at_times(handler: Handler) -> Handler:
        return lambda call: refusal(code, "not now") if is_refused.is_set() else handler(call)

    stand.cluster.services["broker-a"].dispatcher.precede(request_code, at_times)
    return is_refused


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_broker_that_refuses_for_a_moment_makes_no_queue_concurrent(
    stand: GrpcStand, code: ResponseCode
) -> None:
    is_refused = refused_at_times(stand, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, code)
    await in_order(stand)
    await stand.world.run_for(seconds=2)
    is_refused.set()
    assert await stand.bodies(client_id="c2", poll_s=5) == []
    answer = await stand.stream("c2").settings(consumer_settings())
    assert (answer.subscription.fifo, answer.backoff_policy.max_attempts) == (True, 2)


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_topic_whose_broker_refuses_for_a_moment_takes_the_messages_of_its_type(
    stand: GrpcStand, code: ResponseCode
) -> None:
    is_refused = refused_at_times(stand, RequestCode.GET_TOPIC_CONFIG, code)
    await stand.put_topic(TOPIC, "FIFO")
    assert (await stand.send(message_group="g")).status.code == pb.Code.OK
    await stand.world.run_for(seconds=2)
    is_refused.set()
    assert (await stand.send(message_group="g")).status.code == pb.Code.OK


@pytest.mark.parametrize("code", REFUSALS)
async def test_what_one_broker_refuses_another_answers(two: GrpcStand, code: ResponseCode) -> None:
    refused_at_times(two, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, code).set()
    refused_at_times(two, RequestCode.GET_TOPIC_CONFIG, code).set()
    for broker in ("broker-a", "broker-b"):
        await two.put_topic(TOPIC, "FIFO", broker=broker)
    await two.put_group(consume_message_orderly=True)
    assert (await two.stream("c1").settings(consumer_settings())).subscription.fifo
    assert (await two.send(message_group="g")).status.code == pb.Code.OK
