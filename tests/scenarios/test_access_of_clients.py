"""Our clients with access keys: what works, what is refused, and how explain describes it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeStatus,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
)
from staticfire.client.admin.access import AccessAdmin, PolicyLine
from staticfire.client.explain.explainer import explain_group
from staticfire.client.settings.push_settings import ConsumeFromWhere
from staticfire.protocol.command import Request
from staticfire.protocol.errors import BrokerAnswer, StaticfireError, UsageError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.access import DeleteAcl, UpdateUser, UserInfo
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand
from tests.scenarios.test_access import judging

pytestmark = pytest.mark.row("G7")

ROOT = ClientSettings(access_key="root", secret_key="r00t")
SHOP = ClientSettings(access_key="shop", secret_key="s3cret")


@asynccontextmanager
async def with_a_user(world: SimulatedWorld, brokers: int = 1) -> AsyncIterator[tuple[Admin, AccessAdmin]]:
    """A cluster that judges requests, and has a user shop without policies."""
    asker = await judging(world, brokers=brokers)
    async with Admin(NAMESERVER, ROOT, world.machine("admin", "10.0.0.8")) as admin:
        access = AccessAdmin(admin)
        await access.add_user("shop", "s3cret")
        yield admin, access
    await asker.close()


async def lost_rights_are_explained(world: SimulatedWorld, admin: Admin, access: AccessAdmin) -> None:
    """Take the rights of a running consumer away, one after the other."""
    await access.set_policy("shop", "Deny", "Topic:orders", ["Sub"])
    await world.run_for(seconds=3)
    words = {finding.words for finding in (await explain_group(admin, "billing")).findings}
    assert "billing's heartbeats are refused: user shop may not Sub on Topic:orders" in words
    await access.change_user("shop", secret="other")
    await world.run_for(seconds=3)
    [finding, *_] = (await explain_group(admin, "billing")).findings
    assert finding.words == "billing's heartbeats are refused: the signature of user shop is wrong"
    await access.change_user("shop", is_enabled=False)
    await world.run_for(seconds=3)
    [finding, *_] = (await explain_group(admin, "billing")).findings
    assert finding.way_out == "staticfire user change shop --enable"


async def test_clients_work_and_a_refused_consumer_is_explained(world: SimulatedWorld) -> None:
    client = ClientSettings(access_key="shop", secret_key="s3cret", heartbeat_broker_interval_ms=1_000)
    async with with_a_user(world, brokers=2) as (admin, access):
        with pytest.raises(UsageError, match="exists"):
            await access.add_user("shop", "s3cret")
        await admin.create_topic("orders", 2)
        await access.set_policy("shop", "Allow", "Topic:orders", ["Pub", "Sub"])
        machine = world.machine("app", "10.0.0.20")
        async with Producer("shop", NAMESERVER, ProducerSettings(client=client), machine) as producer:
            for number in range(8):
                await producer.send(Message("orders", b"%d" % number))
            with pytest.raises((BrokerAnswer, StaticfireError), match="Topic:audit"):
                await producer.send(Message("audit", b"x"))
        seen: list[bytes] = []
        settings = PushSettings(client=client, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer = PushConsumer("billing", NAMESERVER, settings, machine)
        consumer.subscribe("orders")

        @consumer.listener
        async def took(messages: Sequence[ReceivedMessage], _context: object) -> ConsumeStatus:
            seen.extend(message.body for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer:
            await world.run_for(seconds=3)
            assert seen == []
            found = await explain_group(admin, "billing")
            assert found.findings[0].words == "billing's heartbeats are refused: user shop may not Sub on Group:billing"
            assert found.findings[0].way_out == "staticfire allow shop Group:billing Sub"
            await access.set_policy("shop", "Allow", "Group:billing", ["Sub"])
            await world.run_for(seconds=30)
            assert sorted(seen) == [b"%d" % number for number in range(8)]
            assert {member.access_key for member in (await admin.group("billing")).members} == {"shop"}
            await lost_rights_are_explained(world, admin, access)
        assert [(one.name, one.brokers) for one in await access.users()][1] == ("shop", ["broker-a", "broker-b"])


async def test_a_new_group_that_may_not_ask_for_the_ends_of_queues_is_explained(world: SimulatedWorld) -> None:
    """These requests need `Get`, and name no group."""
    async with with_a_user(world) as (admin, access):
        await access.add_policy(PolicyLine("shop", "Allow", "Topic:orders", ["Sub"], []))
        await access.add_policy(PolicyLine("shop", "Allow", "Group:billing", ["Sub"], []))
        await admin.create_topic("orders", 1)
        settings = PushSettings(client=SHOP, consume_from_where=ConsumeFromWhere.LAST_OFFSET, skip_young_history=True)
        consumer = PushConsumer("billing", NAMESERVER, settings, world.machine("app"))
        consumer.subscribe("orders")
        consumer.listener(lambda _messages, _context: ConsumeStatus.CONSUME_SUCCESS)
        async with consumer:
            await world.run_for(seconds=3)
            [finding, *_] = (await explain_group(admin, "billing")).findings
            words = "billing's requests for the ends of queues are refused: user shop may not Get on Topic:orders"
            assert (finding.words, finding.is_cause) == (words, True)
            assert finding.way_out == "staticfire allow shop Topic:orders Get"
            now, replaced = await access.add_policy(PolicyLine("shop", "Allow", "Topic:orders", ["Get"], []))
            assert (now.actions, replaced) == (["Sub", "Get"], None)
            await world.run_for(seconds=90)
            found = (await explain_group(admin, "billing")).findings
            assert all(one.kind != "REFUSED_ACCESS" for one in found)


async def test_what_only_one_broker_has_is_shown_and_can_be_removed(world: SimulatedWorld) -> None:
    async with with_a_user(world, brokers=2) as (admin, access):
        first, second = (await admin.masters()).values()

        async def at(address: str, request: Request) -> None:
            """Change one broker only, as if the other one was away."""
            assert (await admin.client.pool.ask(address, request, admin.timeout_ms)).code == 0

        async def shown() -> list[str]:
            return [str(line) for user in await access.users() for line in user.policies]

        await access.add_policy(PolicyLine("shop", "Allow", "Topic:orders", ["Pub"], []))
        await at(first, DeleteAcl("User:shop", "Custom", "Topic:orders"))
        assert await shown() == ["Allow Topic:orders Pub (only on broker-b)"]
        await access.remove_policy("shop", "Topic:orders")
        assert await shown() == []

        await access.add_policy(PolicyLine("shop", "Allow", "Topic:bills", ["Pub"], []))
        await at(second, DeleteAcl("User:shop"))
        assert await shown() == ["Allow Topic:bills Pub (only on broker-a)"]
        await access.remove_policy("shop", "Topic:bills")
        assert await shown() == []

        await access.change_user("shop", is_enabled=False)
        await at(second, UpdateUser("shop", body=UserInfo(user_status="enable")))
        assert [one.is_enabled for one in await access.users() if one.name == "shop"] == [True], "on broker-b"


async def test_an_allowed_action_is_added_and_another_decision_replaces(world: SimulatedWorld) -> None:
    async with with_a_user(world) as (_, access):
        wanted = PolicyLine("shop", "Allow", "Topic:orders", ["Pub"], [])
        assert await access.add_policy(wanted) == (wanted, None)
        both, replaced = await access.add_policy(wanted._replace(actions=["Sub"]))
        assert (both.actions, replaced) == (["Pub", "Sub"], None)
        near = wanted._replace(sources=["10.0.0.0/8"])
        assert await access.add_policy(near) == (near, both)
        denied = wanted._replace(decision="Deny", actions=["Sub"])
        assert await access.add_policy(denied) == (denied, near)
        assert [str(line) for user in await access.users() for line in user.policies] == ["Deny Topic:orders Sub"]
        for sources in (["300.1.1.1"], ["10.0.0.0/99"], ["10.0.0.7", ""]):
            with pytest.raises(UsageError, match="is not an address or network"):
                await access.set_policy("shop", "Allow", "Topic:orders", ["Sub"], sources)
        for name in ("Topic:*x", "Topic:a b", "Group:a**"):
            with pytest.raises(UsageError, match="names have letters, digits"):
                await access.set_policy("shop", "Deny", name, ["Sub"])


@pytest.mark.parametrize(
    ("granted", "used", "similar"),
    [("MQ_INST_1_a%", "", "MQ_INST_1_a%"), ("", "MQ_INST_1_a%", ""), ("MQ_INST_1_a%", "MQ_INST_2_b%", "MQ_INST_1_a%")],
    ids=["forgotten", "too much", "another"],
)
async def test_a_missing_or_wrong_namespace_is_explained(
    world: SimulatedWorld, granted: str, used: str, similar: str
) -> None:
    async with with_a_user(world) as (admin, access):
        await access.set_policy("shop", "Allow", f"Topic:{granted}*" if granted else "Topic:orders", ["Pub", "Sub"])
        await access.set_policy("shop", "Allow", f"Group:{granted}billing", ["Sub"])
        await admin.create_topic(f"{used}orders", 1)
        consumer = PushConsumer(f"{used}billing", NAMESERVER, PushSettings(client=SHOP), world.machine("app"))
        consumer.subscribe(f"{used}orders")
        consumer.listener(lambda _messages, _context: ConsumeStatus.CONSUME_SUCCESS)
        async with consumer:
            await world.run_for(seconds=3)
            [finding, *_] = (await explain_group(admin, f"{used}billing")).findings
        words = f"user shop may not Sub on Group:{used}billing, but on Group:{similar}billing"
        assert finding.words == f"{used}billing's heartbeats are refused: {words}"
        assert "namespace" in finding.way_out
        settings = ProducerSettings(client=SHOP)
        async with Producer("pg", NAMESERVER, settings, world.machine("app")) as producer:
            with pytest.raises(BrokerAnswer, match=f"Topic:{used}orders"):
                await producer.send(Message(f"{used}orders", b"x"))
        assert {
            one.similar for one in (await access.states())["broker-a"].refused if one.request.startswith("SEND")
        } == {f"Topic:{similar}orders"}


async def test_a_first_user_that_would_lock_its_maker_out_is_refused(world: SimulatedWorld) -> None:
    await Stand(world).start()
    async with Admin(NAMESERVER, machine=world.machine("admin", "10.0.0.8")) as admin:
        with pytest.raises(UsageError, match="add a super user first"):
            await AccessAdmin(admin).add_user("shop", "s3cret")
        await AccessAdmin(admin).add_user("root", "r00t", is_super=True)


async def test_a_refused_program_that_names_no_group_is_a_note_for_a_group_without_members(
    world: SimulatedWorld,
) -> None:
    """RocketMQ's own proxy creates a topic when it starts, without a key unless enableAclRpcHookForClusterMode=true."""
    asker = await judging(world)
    assert (await asker.ask(UpdateTopic("DefaultHeartBeatSyncerTopic", 1, 1, 6), None)).code == 16
    async with Admin(NAMESERVER, ROOT, world.machine("admin", "10.0.0.8")) as admin:
        findings = (await explain_group(admin, "billing")).findings
    [note] = [one for one in findings if one.kind == "REFUSED_ACCESS"]
    assert note.words == "UPDATE_AND_CREATE_TOPIC of 10.0.0.9 is refused: no access key was sent"
    assert not note.is_cause
    await asker.close()
