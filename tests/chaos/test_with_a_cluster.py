"""The parts that need a cluster: what is left, the member that joins and leaves, faults and their hits."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from staticfire import (
    AsyncCluster,
    ClientSettings,
    Cluster,
    ConsumeContext,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SystemBusy,
)
from staticfire.chaos.asserting import assert_each
from staticfire.chaos.connections import connections
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.member import CLIENT_ID, as_member, join_for
from staticfire.chaos.planned_fault import MEMBER, Begin, PlannedFault, numbered, rule
from staticfire.chaos.running import ProgramRun, Stopped, TriedProgram, run_program
from staticfire.chaos.session import used_in
from staticfire.chaos.stored import read_left
from staticfire.protocol.errors import UsageError
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool


async def consuming(cluster: AsyncCluster) -> PushConsumer:
    """Return a consumer of the group billing that sends an invoice for each order."""
    await cluster.create_topic("orders", 2)
    billing = PushConsumer("billing", cluster.namesrv)
    billing.subscribe("orders")
    shop = Producer("billing", client=billing.client)

    @billing.listener
    async def bill(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        async with shop:
            for message in messages:
                await shop.send(Message("invoices", b"please pay", keys=message.keys))
        return ConsumeStatus.CONSUME_SUCCESS

    return billing


async def test_commit_that_was_lost_leaves_nothing() -> None:
    """A client whose last commit was lost has consumed everything, and doesn't commit again."""
    async with Cluster() as cluster, Producer("shop", cluster.namesrv) as shop:
        await cluster.create_topic("orders", 1)
        for _ in range(3):
            await shop.send(Message("orders", b"1 book"))

        async def left(claimed: int) -> int:
            found = await read_left(cluster.namesrv, [("billing", "orders")], lambda _, __: claimed)
            return found["billing", "orders"]

        assert [await left(claimed) for claimed in (0, 1, 3)] == [3, 2, 0]


@asynccontextmanager
async def settling(
    faults: list[PlannedFault], settle_s: float, *more: bytes
) -> AsyncIterator[tuple[AsyncCluster, PullConsumer, MessageQueue, "asyncio.Task[Evidence]"]]:
    """Run a program that doesn't end and is in its settling time. A consumer has pulled the first order, not `more`."""
    async with (
        Cluster() as cluster,
        Producer("shop", cluster.namesrv) as shop,
        PullConsumer("billing", cluster.namesrv) as billing,
        connections() as pool,
    ):
        await cluster.create_topic("orders", 1)
        queue = (await shop.send(Message("orders", b"1 book"))).queue
        for body in more:
            await shop.send(Message("orders", body))
        await billing.pull(queue, 0, max_messages=1)
        await billing.commit(queue, 0)
        program = TriedProgram(("tail", "-f", "/dev/null"), limit_s=0, settle_s=settle_s)
        tails = JournalTails(pool, cluster.addresses)
        run = ProgramRun(program, cluster, ClientSettings(), tails, numbered(faults), asyncio.Event())
        yield cluster, billing, queue, asyncio.create_task(run.evidence())


async def next_look(cluster: AsyncCluster) -> None:
    """Wait until it is queried what the group has left."""
    looked = len(await cluster.requests("QUERY_CONSUMER_OFFSET"))
    async with asyncio.timeout(60):
        while len(await cluster.requests("QUERY_CONSUMER_OFFSET")) == looked:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize(("settle_s", "left"), [(0, 1), (60, 0)])
async def test_a_group_may_consume_until_the_settling_time_is_over(settle_s: float, left: int) -> None:
    """At the limit, its message is delivered and not committed yet. The program here doesn't end."""
    async with settling([], settle_s) as (cluster, billing, queue, run):
        if settle_s:
            await next_look(cluster)
            await billing.commit(queue, 1)
        assert (await run).open_at_limit == {("billing", "orders"): left}


async def test_no_fault_begins_after_all_faults_have_ended() -> None:
    """Otherwise it would hit in the settling time, and the messages that are left would count against the program."""
    late = PlannedFault("slow", (("code", "PULL_MESSAGE"), ("delay", "1h")), Begin(1, "billing"))
    async with settling([late], 60, b"2 books") as (cluster, billing, queue, run):
        await next_look(cluster)
        await billing.pull(queue, 1, max_messages=1)
        for _ in range(2):
            await next_look(cluster)
        await billing.commit(queue, 2)
        evidence = await run
        assert [one.at_ms for one in evidence.injected] == [0]
        assert evidence.open_at_limit == {("billing", "orders"): 0}
        assert used_in(evidence).groups["billing"].deliveries == 1  # Faults wait for no delivery after the limit.


async def test_program_does_not_begin_after_the_user_has_stopped_all_runs(tmp_path: Path) -> None:
    mark, stop = tmp_path / "mark", asyncio.Event()
    program = TriedProgram(("touch", str(mark)), limit_s=60)
    stop.set()
    with pytest.raises(Stopped):
        await run_program(program, [], stop)
    async with Cluster() as cluster, connections() as pool:
        tails = JournalTails(pool, cluster.addresses)
        with pytest.raises(Stopped):  # The signal arrived while the cluster started.
            await ProgramRun(program, cluster, ClientSettings(), tails, [], stop).evidence()
    assert not mark.exists()


async def test_program_without_an_endpoint_does_not_get_that_of_its_environment(tmp_path: Path) -> None:
    """Otherwise gRPC clients would use the cluster around this one."""
    seen, here = tmp_path / "seen", {**os.environ, "ROCKETMQ_ENDPOINT": "127.0.0.1:1"}
    program = TriedProgram(
        ("sh", "-c", f"echo ${{ROCKETMQ_ENDPOINT-none}} $STATICFIRE_CHAOS > {seen}"), limit_s=60, environment=here
    )
    await run_program(program, [], asyncio.Event())
    assert seen.read_text() == "none true\n"


async def test_member_joins_as_the_others_and_leaves() -> None:
    async with Cluster() as cluster, await consuming(cluster):
        assert await join_for(cluster.namesrv, "billing", 10) == 1
        events = await cluster.journal("joined", "left", group="billing")
        ours = [one for one in events if one.client == CLIENT_ID]
        theirs = next(one for one in events if one.client != CLIENT_ID)
        assert [one.kind for one in ours] == ["joined", "left"]
        assert ours[0].details["subscriptions"] == theirs.details["subscriptions"]


async def test_member_of_a_group_without_members_is_refused() -> None:
    async with Cluster() as cluster:
        with pytest.raises(UsageError, match="billing has no members"):
            await join_for(cluster.namesrv, "billing", 10)


async def test_faults_are_carried_out_and_counted_only_if_they_hit() -> None:
    faults = numbered(
        [
            rule("busy", code="SEND_MESSAGE", topic="orders", answer="SYSTEM_BUSY", after=1, times=3),
            rule("busy", code="SEND_MESSAGE", topic="refunds", answer="SYSTEM_BUSY", times=1),
            PlannedFault("rebalance", begin=Begin(0, "billing"), how=MEMBER, group="billing", stay_ms=10),
            PlannedFault("rebalance", begin=Begin(99, "billing"), how=MEMBER, group="billing", stay_ms=10),
        ]
    )
    async with Cluster() as cluster, await consuming(cluster), Producer("shop", cluster.namesrv) as shop:
        machine = live_machine()
        pool = ConnectionPool(machine)
        tails = JournalTails(pool, cluster.addresses, [CLIENT_ID])
        injection = FaultInjection(cluster, tails, faults)
        await injection.prepare()
        injection.start()
        await shop.send(Message("orders", b"1 book", keys="1"))
        with pytest.raises(SystemBusy):
            await shop.send(Message("orders", b"1 book", keys="2"))
        async with asyncio.timeout(60):
            while not any(one.kind == "left" and one.client == CLIENT_ID for one in await cluster.journal("left")):  # noqa: ASYNC110
                await asyncio.sleep(0)
        await injection.finish()
        await tails.read()
        await pool.close()
        await machine.workers.close()
        assert [one.hits for one in injection.injected] == [3, 0, 1, 0]
        assert await cluster.faults.all() == []
        assert not [one for one in tails.events if one.client == CLIENT_ID]


async def test_faults_of_a_cluster_share_a_connection() -> None:
    """A connection costs a broker more than a request does, and a run has many faults."""
    async with Cluster() as cluster:
        for _ in range(3):
            async with cluster.faults.add(code="SEND_MESSAGE", drop="request"):
                pass
        added = await cluster.requests("ADD_FAULT")
        assert len(added) == 3
        assert len({one.details["address"] for one in added}) == 1


async def test_member_is_found_in_the_heartbeats_of_the_middle_of_a_run() -> None:
    async with Cluster() as cluster, await consuming(cluster) as billing:
        machine = live_machine()
        pool = ConnectionPool(machine)
        tails = JournalTails(pool, cluster.addresses)
        async with asyncio.timeout(60):
            while as_member(tails.heartbeats, "billing") is None:
                await tails.read_heartbeats()
        assert {one.code for one in tails.heartbeats} == {"HEART_BEAT"}
        assert {one.client for one in tails.heartbeats} == {billing.client.client_id}
        assert tails.requests == []
        await pool.close()
        await machine.workers.close()


def test_condition_as_an_assertion() -> None:
    with Cluster() as cluster, Producer("shop", cluster.namesrv) as shop:
        shop.send(Message("orders", b"1 book", keys="order-1"))
        shop.send(Message("invoices", b"please pay", keys="order-1"))
        assert_each(cluster, "orders -> invoices by key")
        shop.send(Message("invoices", b"please pay", keys="order-1"))
        with pytest.raises(AssertionError, match="order-1: 2 messages"):
            assert_each(cluster, "orders -> invoices by key")
        with pytest.raises(AssertionError, match="nothing was stored in bills"):
            assert_each(cluster, "orders -> bills by key")


def test_queue_of_the_client_is_one_of_the_evidence() -> None:
    from staticfire.chaos.evidence import QueuePlace

    assert QueuePlace(*MessageQueue("orders", "broker-a", 3)) == ("orders", "broker-a", 3)
