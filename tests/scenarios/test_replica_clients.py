"""What clients see of a master and its slave: reads without the master, suggestions, offsets, the way back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientError,
    ClientSettings,
    ConsumeContext,
    ConsumeStatus,
    LitePullConsumer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    PushSettings,
)
from staticfire.client.admin.listing import list_groups
from staticfire.client.consume.results.consume_results import Messages
from staticfire.client.explain.explainer import explain_group
from staticfire.protocol.errors import NetworkError, StaticfireError
from staticfire.protocol.requests.connections import GetConsumerConnections
from staticfire.protocol.requests.offsets import QueryConsumerOffset
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import in_both_protocols
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_clients import FIRST, LITE, ORDERED, PUSH, QUEUE, SIMPLE, TOPIC, ReplicaClients
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")

ALL = [PUSH, ORDERED, LITE, SIMPLE]


@pytest_asyncio.fixture
async def clients(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[ReplicaClients]:
    """Clients of a pair, with the settings that a test is parametrized with."""
    pair = await ReplicaSet(world).open()
    clients = ReplicaClients(world, pair, getattr(request, "param", ClientSettings()))
    yield await clients.open()
    await clients.close()
    await pair.close()


async def committed(clients: ReplicaClients, at: str, group: str) -> int:
    answer = await clients.pair.ask(at, QueryConsumerOffset(group, TOPIC, 0))
    return -1 if answer.code == 22 else int(answer.offset)


async def lose_master(clients: ReplicaClients) -> None:
    """Kill the master when the slave has everything, also its offsets."""
    await clients.pair.until_caught_up()
    await clients.world.run_for(3_000)
    clients.world.kill(MASTER)
    await clients.world.run_for(3_000)


@in_both_protocols("clients")
async def test_consumers_without_a_master_read_the_backlog_of_the_slave(clients: ReplicaClients) -> None:
    bodies = [b"%d" % number for number in range(20)]
    await clients.send(*bodies)
    await lose_master(clients)
    await clients.start(*ALL)
    await clients.until_got(bodies, PUSH, LITE)
    await clients.world.run_for(20_000)
    assert (clients.got[ORDERED], clients.got[SIMPLE]) == ([], [])
    assert "has no master now, only slaves (1 at 10.0.1.2:10911)" in clients.errors[-1]
    for group in (PUSH, LITE):
        assert await committed(clients, SLAVE, group) == 20
    await clients.pair.start(MASTER)
    await clients.until_got(bodies, *ALL)


@in_both_protocols("clients")
async def test_running_consumers_continue_at_the_slave_and_come_back(
    clients: ReplicaClients, logged: list[LogLine]
) -> None:
    await clients.start(*ALL)
    await clients.send(b"1", b"2")
    await clients.until_got([b"1", b"2"], *ALL)
    await lose_master(clients)
    await clients.world.run_for(10_000)
    moved = [line for line in logged if line.event == "queue_read_at_slave" and line.fields["group"] == PUSH]
    assert {line.fields["reason"] for line in moved} == {"the route contains no master"}
    await clients.pair.start(MASTER)
    await clients.world.run_for(3_000)
    await clients.send(b"3")
    await clients.until_got([b"1", b"2", b"3"], *ALL, within_ms=25_000)
    assert any(line.event == "queue_read_at_master" for line in logged)
    await clients.world.run_for(6_000)
    for group in (PUSH, LITE, ORDERED):
        assert await committed(clients, MASTER, group) == 3


async def test_offsets_that_were_committed_at_the_slave_are_committed_again_at_the_master(
    clients: ReplicaClients,
) -> None:
    """RocketMQ's master comes back with its old offsets, but a consumer that still runs knows better."""
    await clients.send(*(b"%d" % number for number in range(10)))
    await lose_master(clients)
    await clients.start(PUSH)
    await clients.world.until(lambda: len(clients.got[PUSH]) == 10, what="the backlog")
    await clients.world.run_for(6_000)
    await clients.pair.start(MASTER)
    await clients.world.run_for(10_000)
    assert await committed(clients, MASTER, PUSH) == 10


async def test_a_producer_fails_with_the_reason_and_continues_as_soon_as_there_is_a_master(
    clients: ReplicaClients,
) -> None:
    await clients.send(b"1")
    await lose_master(clients)
    began_ms = clients.world.uptime_ms
    with pytest.raises(ClientError, match=r"no writable queue: broker broker-a has no master now, only slaves \(1 at"):
        await clients.send(b"2")
    assert clients.world.uptime_ms - began_ms < 100
    await clients.world.run_for(70_000)  # The client no longer looks for the lost broker.
    await clients.pair.start(MASTER)
    await clients.world.run_for(100)
    await clients.send(b"3")


async def test_a_producer_follows_a_failover_within_half_a_second(clients: ReplicaClients) -> None:
    await clients.send(b"1")
    await clients.pair.until_caught_up()
    clients.world.kill(MASTER)
    await clients.world.run_for(50)
    await clients.pair.failover(losing=0)
    changed_ms = clients.world.uptime_ms
    while True:
        try:
            await clients.send(b"2")
            break
        except StaticfireError:
            await clients.world.run_for(10)
    assert clients.world.uptime_ms - changed_ms < 500
    assert await clients.pair.bodies(SLAVE) == [b"1", b"2"]


@in_both_protocols("clients")
async def test_a_suggested_slave_is_read_and_offsets_go_to_the_master(
    world: SimulatedWorld, clients: ReplicaClients
) -> None:
    await clients.pair.restart(MASTER, access_message_in_memory_max_ratio=0)
    await clients.pair.until_caught_up()
    await clients.send(*(b"%d" % number for number in range(40)))
    await clients.pair.until_caught_up()
    async with PullConsumer("pull", client=clients.producer.client) as reader:
        first = await reader.pull(QUEUE, 0, max_messages=10)
        assert (first.status, first.suggested_broker_id) == (PullStatus.FOUND, 1)
        world.freeze(MASTER)
        second = await reader.pull(QUEUE, first.next_offset, max_messages=10)  # The slave answers.
        assert (len(second.messages), second.suggested_broker_id) == (10, 0)
        world.thaw(MASTER)
    await clients.start(PUSH, LITE, pull_batch_size=8)
    await clients.until_got([b"%d" % number for number in range(40)], PUSH, LITE)
    await clients.world.run_for(6_000)
    assert await committed(clients, MASTER, PUSH) == 40


async def test_a_client_ahead_of_the_slave_waits_and_says_why(clients: ReplicaClients, logged: list[LogLine]) -> None:
    await clients.start(PUSH)
    await clients.send(b"1", b"2")
    await clients.pair.until_caught_up()
    await clients.pair.control(SLAVE, hold=True)
    await clients.send(b"3", b"4", b"5")
    await clients.until_got([b"1", b"2", b"3", b"4", b"5"], PUSH)
    await clients.world.run_for(2_000)
    clients.world.kill(MASTER)
    await clients.world.run_for(20_000)
    (line,) = [line for line in logged if line.event == "replica_lacks_offset"]
    assert (line.fields["offset"], line.fields["end"], line.fields["replica"]) == (5, 2, 1)
    found = await explain_group(clients.admin, PUSH)
    assert [one.kind for one in found.causes] == ["AHEAD_OF_SLAVE"]
    assert "at offset 5 of orders broker-a/0, and slave 1 of broker-a, which is read now, ends at 2" in str(found)
    await clients.pair.start(MASTER)
    await clients.pair.control(SLAVE, hold=False)
    await clients.world.run_for(5_000)
    await clients.send(b"6")
    await clients.until_got([b"1", b"2", b"3", b"4", b"5", b"6"], PUSH)


@pytest.mark.parametrize(("kind", "words"), [(ORDERED, "grants queue locks"), (SIMPLE, "accepts pops")])
async def test_explain_says_why_consumers_that_need_a_master_get_nothing(
    clients: ReplicaClients, kind: str, words: str
) -> None:
    await clients.start(kind)
    await clients.send(b"1")
    await clients.until_got([b"1"], kind)
    await lose_master(clients)
    found = await explain_group(clients.admin, kind)
    (cause,) = found.causes
    assert cause.kind == "MASTER_AWAY"
    assert words in cause.words


async def test_explain_notes_that_a_slave_is_read(clients: ReplicaClients) -> None:
    await clients.start(PUSH)
    await clients.send(b"1")
    await clients.until_got([b"1"], PUSH)
    await lose_master(clients)
    await clients.world.run_for(5_000)
    found = await explain_group(clients.admin, PUSH)
    assert ([one.kind for one in found.causes], [one.kind for one in found.findings]) == ([], ["READ_AT_SLAVE"])


async def test_explain_names_a_slave_that_refuses_pulls(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, slave_read_enable=False).open()
    clients = await ReplicaClients(world, pair, ClientSettings()).open()
    await clients.start(PUSH)
    await clients.send(b"1")
    await clients.until_got([b"1"], PUSH)
    await lose_master(clients)
    await clients.world.run_for(5_000)
    found = await explain_group(clients.admin, PUSH)
    assert [one.kind for one in found.causes] == ["SLAVE_NOT_READABLE"]
    await clients.close()
    await pair.close()


async def test_explain_names_offsets_that_went_back(clients: ReplicaClients) -> None:
    await clients.send(*(b"%d" % number for number in range(10)))
    await lose_master(clients)
    await clients.start(PUSH)
    await clients.world.until(lambda: len(clients.got[PUSH]) == 10, what="the backlog")
    await clients.world.run_for(6_000)
    await clients.world.stop(PUSH)
    await clients.pair.control(SLAVE, hold=True)
    await clients.pair.start(MASTER)
    await clients.world.run_for(1_000)
    found = await explain_group(clients.admin, PUSH)
    (finding,) = [one for one in found.findings if one.kind == "OFFSETS_SET_BACK"]
    assert "now gets 10 messages again" in finding.words


async def test_administrators_read_from_the_slave_and_change_nothing(clients: ReplicaClients) -> None:
    await clients.send(b"1", b"2")
    await lose_master(clients)
    admin = clients.admin
    assert await admin.readers() == {MASTER: "10.0.1.2:10911"}
    assert PUSH in await admin.groups()
    assert (await admin.topic_config(TOPIC, MASTER)).read_queue_nums == 1
    assert await admin.max_offset(QUEUE) == 2
    view = await admin.group(PUSH)
    assert (view.members, [one.kind for one in view.warnings]) == ([], ["BROKER_WITHOUT_MASTER"])
    assert {line["warnings"] for line in await list_groups(admin)} == {1}
    with pytest.raises(ClientError, match="only slaves are left of broker-a: these can be read, and accept no changes"):
        await admin.create_topic("bills")


async def test_a_lite_pull_consumer_seeks_at_the_slave(clients: ReplicaClients, world: SimulatedWorld) -> None:
    await clients.send(*(b"%d" % number for number in range(5)))
    await lose_master(clients)
    machine = world.machine("seeker", "10.0.3.77")
    consumer = await world.start("seeker", LitePullConsumer("seekers", NAMESRV, machine=machine))
    await consumer.assign([QUEUE])
    await consumer.seek(QUEUE, 3)
    assert [message.body for message in await consumer.poll(5_000)] == [b"3", b"4"]


async def test_a_pull_consumer_reads_the_slave_soon_after_an_error(clients: ReplicaClients) -> None:
    await clients.send(b"1", b"2")
    async with PullConsumer("reader", NAMESRV, machine=clients.world.machine("reader", "10.0.3.78")) as reader:
        assert [queue.queue_id for queue in await reader.queues(TOPIC)] == [0]
        await clients.pair.until_caught_up()
        clients.world.kill(MASTER)
        await clients.world.run_for(100)
        with pytest.raises(NetworkError):
            await reader.pull(QUEUE, 0)
        await clients.world.run_for(1_500)
        assert [message.body for message in (await reader.pull(QUEUE, 0)).messages] == [b"1", b"2"]


async def test_a_message_that_fails_without_a_master_is_tried_again_in_memory(clients: ReplicaClients) -> None:
    """It can't be sent back: a slave accepts nothing. RocketMQ's clients do the same, after five seconds."""
    await clients.admin.create_group("fails")
    await clients.send(b"1")
    await lose_master(clients)
    consumer = PushConsumer("fails", NAMESRV, PushSettings(consume_from_where=FIRST), clients.world.machine("fails"))
    consumer.subscribe(TOPIC)
    tried_ms: list[int] = []

    @consumer.listener
    async def fail_once(messages: Messages, _: ConsumeContext) -> ConsumeStatus:
        tried_ms.append(clients.world.uptime_ms)
        return ConsumeStatus.RECONSUME_LATER if len(tried_ms) == 1 else ConsumeStatus.CONSUME_SUCCESS

    await clients.world.start("fails", consumer)
    await clients.world.until(lambda: len(tried_ms) == 2, 60_000)
    assert tried_ms[1] - tried_ms[0] < 15_000
    await clients.world.run_for(10_000)
    assert await committed(clients, SLAVE, "fails") == 1


async def test_the_last_consumer_of_a_client_leaves_the_slave_too(clients: ReplicaClients) -> None:
    settings = PushSettings(consume_from_where=FIRST)
    consumer = PushConsumer(PUSH, settings=settings, client=clients.producer.client)
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def listen(messages: Messages, _: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def members(name: str) -> int:
        answer = await clients.pair.ask(name, GetConsumerConnections(PUSH))
        return len(answer.body.connection_set) if answer.body is not None else 0

    async with consumer:
        assert [await members(name) for name in (MASTER, SLAVE)] == [1, 1]
    assert [await members(name) for name in (MASTER, SLAVE)] == [0, 0]


async def test_explain_says_that_a_suggested_slave_is_behind(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, access_message_in_memory_max_ratio=0).open()
    clients = await ReplicaClients(world, pair, ClientSettings()).open()
    await clients.send(*(b"%d" % number for number in range(40)))
    await pair.until_caught_up()
    settings = PushSettings(consume_from_where=FIRST, pull_batch_size=8, pull_threshold_for_queue=16)
    consumer = PushConsumer(PUSH, NAMESRV, settings, world.machine("slow", "10.0.3.79"))
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def wait(messages: Messages, _: ConsumeContext) -> ConsumeStatus:
        await asyncio.get_running_loop().create_future()
        return ConsumeStatus.CONSUME_SUCCESS

    await world.start("slow", consumer)
    await world.run_for(1_000)
    found = await explain_group(clients.admin, PUSH)
    assert "1 queue of broker-a read from its slave (1 at 10.0.1.2:10911): the broker suggested it" in str(found)
    await pair.control(SLAVE, hold=True)
    await clients.send(*(b"%d" % number for number in range(40, 80)))
    found = await explain_group(clients.admin, PUSH)
    (behind,) = [one for one in found.causes if one.kind == "SLAVE_BEHIND"]
    assert "40 messages behind its master" in behind.words
    world.kill("slow")
    await clients.close()
    await pair.close()
