"""Messages that are held for a client that has terminated, fallen silent, or consumes for another group now."""

import asyncio

import pytest

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.grpc_stand import GROUP, TOPIC, GrpcStand, consumer_settings, keep_alive, ready, resource, working

pytestmark = pytest.mark.row("G3", "G5")

PUSH = pb.ClientType.PUSH_CONSUMER


async def leave(stand: GrpcStand, how: str) -> None:
    """Have client c1 leave its group."""
    if how == "goodbye":
        await stand.call("NotifyClientTermination", group=resource(GROUP))
    elif how == "silence":
        await stand.world.run_for(seconds=11)
    else:
        await stand.consumer("c1", "another", kind=PUSH)
    assert not stand.service.clients.consumes("c1", GROUP)


@pytest.mark.parametrize("how", ["goodbye", "silence", "another group"])
async def test_a_message_that_arrives_after_its_client_has_left_is_anothers(stand: GrpcStand, how: str) -> None:
    await ready(stand)
    await stand.consumer("c1", kind=PUSH)
    await stand.world.run_for(seconds=115)
    pending = asyncio.ensure_future(stand.receive(client_id="c1", auto_renew=True, poll_s=19))
    await stand.world.run_for(seconds=1)
    await leave(stand, how)
    await stand.send(body=b"late")
    received = await pending
    assert (received.status.code, received.messages) == (pb.Code.MESSAGE_NOT_FOUND, [])
    await stand.consumer("c2", kind=PUSH)
    assert (await stand.receive(client_id="c2", auto_renew=True, poll_s=5)).attempts == [2]


async def test_a_client_that_consumes_for_another_group_now_has_returned_its_messages(stand: GrpcStand) -> None:
    await working(stand)
    await leave(stand, "another group")
    await keep_alive(stand, 0.5, "c1", "c2")
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def test_a_client_that_sends_its_settings_again_keeps_its_messages(stand: GrpcStand) -> None:
    message = await working(stand)
    for _ in range(5):
        await stand.stream("c1").settings(consumer_settings(kind=PUSH))
        await keep_alive(stand, 2, "c1", "c2")
    assert await stand.bodies(client_id="c2", auto_renew=True) == []
    assert (await stand.ack(message)).status.code == pb.Code.OK


async def test_an_acknowledgement_that_fails_after_a_goodbye_leaves_the_message_to_others(stand: GrpcStand) -> None:
    message = await working(stand)
    stand.world.freeze("broker-a")
    acknowledged = asyncio.ensure_future(stand.ack(message))
    await stand.world.run_for(seconds=0.5)
    await stand.call("NotifyClientTermination", group=resource(GROUP))
    stand.world.kill("broker-a")
    assert (await acknowledged).status.code == pb.Code.INTERNAL_SERVER_ERROR
    await stand.cluster.start_broker("broker-a")
    await keep_alive(stand, 0.5, "c2")
    assert (await stand.receive(client_id="c2", auto_renew=True)).attempts == [2]


async def test_messages_are_held_only_for_the_group_of_a_clients_settings(stand: GrpcStand) -> None:
    await ready(stand, b"a")
    await stand.consumer("c1", "another", kind=PUSH)
    received = await stand.receive(auto_renew=True)
    assert received.status.code == pb.Code.ILLEGAL_CONSUMER_GROUP
    words = "client c1 has no settings of group billing here: it must send them over Telemetry first"
    assert received.status.message == words
    assert await stand.bodies() == [b"a"]  # Nothing is held without auto_renew.


async def test_a_client_that_returns_while_a_broker_is_slow_keeps_its_new_messages(world: SimulatedWorld) -> None:
    """A producer falls silent, too. Its group's removal waits for a broker that doesn't respond."""
    stand = await GrpcStand(world, brokers=2).start()
    await stand.put_topic(TOPIC)
    await stand.put_topic("payments", "TRANSACTION", broker="broker-b")
    await stand.producer("payments")
    await stand.consumer("c1", kind=PUSH)
    await world.run_for(seconds=119)
    world.freeze("broker-b")
    await world.run_for(seconds=7)
    assert stand.service.clients.get("c1") is None
    await stand.consumer("c1", kind=PUSH)
    await stand.consumer("c2", kind=PUSH)
    await stand.send(body=b"new")
    [message] = (await stand.receive(client_id="c1", auto_renew=True)).messages
    await world.run_for(seconds=10)
    assert await stand.bodies(client_id="c2", auto_renew=True, poll_s=5) == []
    assert (await stand.ack(message)).status.code == pb.Code.OK
    world.thaw("broker-b")
    await stand.close()
