"""What clients learn before they send or receive: routes, assignments, their own settings."""

import asyncio
from typing import Any

import pytest

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.protocol.requests.groups import ExponentialRetryPolicy, GroupRetryPolicy
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.callers import Caller
from staticfire.proxy.services.client_table import SETTINGS_WITHIN_MS
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.routing import RouteCalls
from staticfire.proxy.services.statuses import StatusError
from staticfire.proxy.transport.calls import GrpcError, GrpcStatus
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.proxy.grpc_stand import GROUP, GrpcStand, consumer_settings, producer_settings, resource, seconds
from tests.scenarios.replica_set import MASTER, NAMESRV, ReplicaSet

pytestmark = pytest.mark.row("G3")

ENDPOINTS = pb.Endpoints(scheme=pb.AddressScheme.DOMAIN_NAME, addresses=[pb.Address(host="my.example", port=9999)])
READ_WRITE, READ = pb.Permission.READ_WRITE, pb.Permission.READ
CALLER = Caller("client", "JAVA", "5.0.7", ("10.0.0.9", 1), None)
NORMAL, FIFO = pb.MessageType.NORMAL, pb.MessageType.FIFO


@pytest.mark.parametrize(
    ("kind", "perm", "queues", "permission", "types"),
    [
        ("NORMAL", 6, 4, READ_WRITE, [NORMAL]),
        ("FIFO", 6, 2, READ_WRITE, [FIFO]),
        ("", 6, 2, READ_WRITE, [NORMAL]),
        ("", 4, 2, READ, [NORMAL]),
    ],
)
async def test_a_route_has_the_queues_of_a_topic(
    stand: GrpcStand, kind: str, perm: int, queues: int, permission: int, types: list[int]
) -> None:
    await stand.put_topic("made", kind, queues, perm)
    answer = await stand.call("QueryRoute", topic=resource("made"), endpoints=ENDPOINTS)
    assert (answer.status.code, answer.status.message) == (pb.Code.OK, "OK")
    assert [queue.id for queue in answer.message_queues] == list(range(queues))
    for queue in answer.message_queues:
        assert (queue.broker.name, queue.broker.id) == ("broker-a", 0)
        assert (queue.permission, list(queue.accept_message_types)) == (permission, types)
        assert queue.broker.endpoints == ENDPOINTS  # Whatever stands between, the client came that way.


async def route_of(stand: GrpcStand, client_id: str) -> int:
    answer = await stand.call("QueryRoute", client_id=client_id, topic=resource("made"), endpoints=ENDPOINTS)
    return len(answer.message_queues)


async def test_a_route_is_new_although_a_request_from_before_the_change_is_in_flight(stand: GrpcStand) -> None:
    await stand.put_topic("made", queues=2)
    assert await route_of(stand, "c1") == 2
    await stand.world.run_for(seconds=2)
    stand.world.set_link("proxy", "nameserver", LinkQuality(delay_ms=100))
    before = stand.later(0, route_of(stand, "c1"))
    await stand.world.run_for(150)  # The nameserver has answered, and the response is on its way.
    await stand.put_topic("made", queues=4)
    await stand.world.run_for(20)
    after = [stand.later(0, route_of(stand, f"c{number}")) for number in range(2, 5)]
    assert await asyncio.gather(before, *after) == [2, 4, 4, 4]


async def test_settings_are_new_although_a_request_from_before_the_change_is_in_flight(stand: GrpcStand) -> None:
    await stand.put_group(retry_max_times=1)
    await stand.put_topic()
    assert (await stand.stream("c1").settings(consumer_settings())).backoff_policy.max_attempts == 2
    await stand.world.run_for(seconds=2)
    stand.world.set_link("proxy", "broker-a", LinkQuality(delay_ms=100))
    before = asyncio.ensure_future(stand.stream("c1").settings(consumer_settings()))
    await stand.world.run_for(150)
    await stand.put_group(retry_max_times=7)
    after = await stand.stream("c2").settings(consumer_settings())
    assert after.backoff_policy.max_attempts == 8
    await before


async def test_a_route_is_new(stand: GrpcStand) -> None:
    """Clients keep it for 30 s, and refuse messages of other types themselves."""
    for kind, queues, types in (("", 4, [NORMAL]), ("FIFO", 2, [FIFO])):
        await stand.put_topic("made", kind, queues)
        answer = await stand.call("QueryRoute", topic=resource("made"), endpoints=ENDPOINTS)
        assert [list(queue.accept_message_types) for queue in answer.message_queues] == [types] * queues


async def test_settings_are_new(stand: GrpcStand) -> None:
    """Clients keep them for 5 minutes."""
    await stand.put_topic()
    for in_order in (False, True):
        await stand.put_group(consume_message_orderly=in_order)
        assert (await stand.stream().settings(consumer_settings())).subscription.fifo == in_order


@pytest.mark.parametrize(
    ("topic", "code"),
    [("missing", 40402), ("", 40002), ("a b", 40002), ("x" * 128, 40002), ("TBW102", 40002), ("rmq_sys_x", 40002)],
)
async def test_a_route_is_refused(stand: GrpcStand, topic: str, code: int) -> None:
    answer = await stand.call("QueryRoute", topic=resource(topic))
    assert answer.status.code == code
    assert not answer.message_queues


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("QueryRoute", {"topic": resource("made")}),
        ("SendMessage", {}),
        ("AckMessage", {}),
        ("Heartbeat", {}),
        ("EndTransaction", {}),
        ("RecallMessage", {}),
    ],
)
@pytest.mark.parametrize("client_id", [None, "  "])
async def test_every_call_says_who_calls(
    stand: GrpcStand, name: str, fields: dict[str, Any], client_id: str | None
) -> None:
    answer = await stand.call(name, client_id=client_id, **fields)
    assert (answer.status.code, answer.status.message) == (40017, "client id cannot be empty")


async def test_assignments_are_queues_only_where_order_counts(stand: GrpcStand) -> None:
    await stand.put_topic("made")
    await stand.put_group("in-order", consume_message_orderly=True)

    async def ids(group: str) -> list[int]:
        answer = await stand.call("QueryAssignment", topic=resource("made"), group=resource(group))
        assert answer.status.code == pb.Code.OK
        return [each.message_queue.id for each in answer.assignments]

    assert await ids("unknown") == [-1]
    assert await ids("in-order") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("topic", "group", "code", "words"),
    [
        ("made", "", 40003, "the specified group is blank"),
        ("made", "CID_RMQ_SYS_x", 40003, "cannot use system consumer group"),
        ("made", "x" * 256, 40003, "longer than"),
        ("made", "a b", 40003, "illegal characters"),
        ("write-only", "g", 40300, "no readable queue"),
    ],
)
async def test_an_assignment_is_refused(stand: GrpcStand, topic: str, group: str, code: int, words: str) -> None:
    await stand.put_topic("made")
    await stand.put_topic("write-only", perm=2)
    answer = await stand.call("QueryAssignment", topic=resource(topic), group=resource(group))
    assert answer.status.code == code
    assert words in answer.status.message


@pytest.mark.parametrize("name", ["PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"])
async def test_what_the_proxy_never_had_is_unimplemented(stand: GrpcStand, name: str) -> None:
    with pytest.raises(
        GrpcError, match=f"Method apache.rocketmq.v2.MessagingService/{name} is unimplemented"
    ) as raised:
        await stand.call(name)
    assert raised.value.status == GrpcStatus.UNIMPLEMENTED


# -- settings ----------------------------------------------------------------------------------------------------------


async def test_a_producer_gets_settings_for_sends(stand: GrpcStand) -> None:
    wanted = producer_settings("not-there-yet")
    wanted.publishing.max_body_size = 134_217_728
    wanted.access_point.CopyFrom(ENDPOINTS)
    answer = await stand.stream().settings(wanted)
    assert answer.access_point == ENDPOINTS
    assert answer.request_timeout == seconds(3)
    assert [topic.name for topic in answer.publishing.topics] == ["not-there-yet"]
    assert (answer.publishing.max_body_size, answer.publishing.validate_message_type) == (4_194_304, True)
    assert answer.backoff_policy.max_attempts == 3
    exponential = answer.backoff_policy.exponential_backoff
    assert (exponential.initial, exponential.max, exponential.multiplier) == (seconds(0.01), seconds(1), 2)
    assert answer.HasField("metric")
    assert not answer.metric.on


async def test_a_consumer_gets_news_about_its_group(stand: GrpcStand) -> None:
    await stand.put_topic("orders")
    answer = await stand.stream().settings(consumer_settings("new"))
    assert answer.backoff_policy.max_attempts == 17
    table = [delay.seconds for delay in answer.backoff_policy.customized_backoff.next]
    assert (len(table), table[0], table[1], table[-1]) == (18, 1, 5, 7200)
    subscription = answer.subscription
    assert (subscription.fifo, subscription.receive_batch_size) == (False, 32)
    assert subscription.long_polling_timeout == seconds(20)

    grows = GroupRetryPolicy("EXPONENTIAL", ExponentialRetryPolicy(2_000, 60_000, 3))
    await stand.put_group("strict", retry_max_times=1, consume_message_orderly=True, group_retry_policy=grows)
    answer = await stand.stream("c2").settings(consumer_settings("strict"))
    assert (answer.backoff_policy.max_attempts, answer.subscription.fifo) == (2, True)
    exponential = answer.backoff_policy.exponential_backoff
    assert (exponential.initial, exponential.max, exponential.multiplier) == (seconds(2), seconds(60), 3)


@pytest.mark.parametrize(
    ("settings", "metadata", "status", "words"),
    [
        (pb.Settings(), {}, GrpcStatus.INVALID_ARGUMENT, "no publishing or subscription data in settings"),
        (producer_settings("made"), {"language": "GOLANG"}, GrpcStatus.INTERNAL, "No enum constant .*GOLANG"),
        (consumer_settings(kind=4), {}, GrpcStatus.INTERNAL, "Client type is not consumer, type: PULL_CONSUMER"),
        (consumer_settings(kind=99), {}, GrpcStatus.INTERNAL, "type: UNRECOGNIZED"),
        (consumer_settings(expression="||"), {}, GrpcStatus.INVALID_ARGUMENT, "expression format is not correct"),
        (consumer_settings(""), {}, GrpcStatus.INVALID_ARGUMENT, "the specified group is blank"),
        (producer_settings("a b"), {}, GrpcStatus.INVALID_ARGUMENT, "illegal characters"),
    ],
    ids=["neither", "language", "pull consumer", "newer type", "filter", "group", "topic"],
)
async def test_settings_that_cannot_be_end_the_stream(
    stand: GrpcStand, settings: pb.Settings, metadata: dict[str, str], status: GrpcStatus, words: str
) -> None:
    error = await stand.stream("c9", **metadata).refused(settings)
    assert error.status == status
    with pytest.raises(GrpcError, match=words):
        raise error
    assert stand.service.clients.get("c9") is None


async def test_a_stream_without_a_client_id_says_so_and_ends(stand: GrpcStand) -> None:
    stream = stand.stream(None)
    await stream.task
    assert stream.error is None
    assert stream.answers.get_nowait().status.code == 40017


async def test_half_closed_streams_end_and_their_clients_stay(stand: GrpcStand) -> None:
    stream = await stand.consumer()
    await stream.close()
    assert stream.error is None
    assert (await stand.call("Heartbeat", group=resource(GROUP))).status.code == pb.Code.OK


# -- presence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Heartbeat", "NotifyClientTermination"])
async def test_a_client_without_settings_is_not_registered(stand: GrpcStand, name: str) -> None:
    answer = await stand.call(name, group=resource(GROUP))
    assert (answer.status.code, answer.status.message) == (40015, "cannot find client settings for this client")


async def test_a_consumers_heartbeat_names_its_group(stand: GrpcStand) -> None:
    await stand.consumer()
    assert (await stand.call("Heartbeat")).status.code == 40003
    assert (await stand.call("Heartbeat", group=resource(GROUP), client_type=99)).status.code == pb.Code.OK


async def test_a_goodbye_counts_even_when_its_group_is_wrong(stand: GrpcStand) -> None:
    await stand.consumer()
    assert (await stand.call("NotifyClientTermination")).status.code == 40003
    assert (await stand.call("Heartbeat", group=resource(GROUP))).status.code == 40015
    await stand.producer("made")
    assert (await stand.call("NotifyClientTermination", client_id="p1")).status.code == pb.Code.OK


async def test_silent_clients_are_forgotten(stand: GrpcStand) -> None:
    await stand.consumer("quiet")
    await stand.consumer("c1")
    for _ in range(4):
        await stand.world.run_for(seconds=32)
        assert (await stand.call("Heartbeat", group=resource(GROUP))).status.code == pb.Code.OK
    assert stand.service.clients.get("quiet") is None
    assert stand.service.clients.get("c1") is not None


async def test_each_receive_waits_its_own_moment_for_the_settings(world: SimulatedWorld, stand: GrpcStand) -> None:
    await stand.put_topic()
    await stand.send()
    first = asyncio.ensure_future(stand.receive(poll_s=0))
    await world.run_for(SETTINGS_WITHIN_MS - 100)
    second = asyncio.ensure_future(stand.receive(poll_s=0))
    await world.run_for(200)
    assert first.done()
    await stand.consumer()
    began_ms = world.uptime_ms
    assert [message.body for message in (await second).messages] == [b"x"]
    assert world.uptime_ms - began_ms < 100  # It doesn't wait until its own limit.
    assert (await first).messages == []


@pytest.mark.row("P7")
async def test_a_route_names_each_queue_at_each_replica(world: SimulatedWorld) -> None:
    """As RocketMQ's proxy: clients receive from the master only, so that there is nothing to receive without one."""
    pair = await ReplicaSet(world).open()
    async with ClusterClient(NAMESRV, machine=world.machine("proxy", "10.0.0.30")) as client:
        calls = RouteCalls(KnownCluster(client))
        route = pb.QueryRouteRequest(topic=resource("orders"), endpoints=ENDPOINTS)
        assignment = pb.QueryAssignmentRequest(topic=resource("orders"), group=resource(GROUP), endpoints=ENDPOINTS)
        found = await calls.query_route(route, CALLER)
        assert [(queue.broker.id, queue.id) for queue in found.message_queues] == [(0, 0), (1, 0)]
        received_from = (await calls.query_assignment(assignment, CALLER)).assignments
        assert [one.message_queue.broker.id for one in received_from] == [0]
        world.kill(MASTER)
        await world.run_for(seconds=70)
        found = await calls.query_route(route, CALLER)
        assert [queue.broker.id for queue in found.message_queues] == [1]
        with pytest.raises(StatusError, match="no readable queue"):
            await calls.query_assignment(assignment, CALLER)
    await pair.close()
