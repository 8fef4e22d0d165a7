"""An administrator with more patience than the default waits for each request as long as it says."""

from collections.abc import Awaitable, Callable

import pytest

from staticfire.client import Admin, Message
from staticfire.client.admin.access import AccessAdmin
from staticfire.client.admin.creating_groups import GroupWish, create_group
from staticfire.client.admin.creating_topics import TopicWish, create_topic
from staticfire.client.admin.faults import FaultAdmin
from staticfire.client.admin.listing import list_groups, list_topics
from staticfire.client.explain.explainer import explain_group
from staticfire.client.life.gathering import message_lives
from staticfire.faults.parsing import parse_fault
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop

pytestmark = pytest.mark.row("S9")

PATIENCE_MS = 60_000
SLOW = LinkQuality(delay_ms=6_000)
MESSAGE = Message(TOPIC, b"1", keys=["order-1"])
WORK: dict[str, Callable[[Admin], Awaitable[object]]] = {
    "create a topic": lambda admin: create_topic(admin, "bills", TopicWish()),
    "create a group": lambda admin: create_group(admin, "auditors", GroupWish()),
    "list a topic": lambda admin: list_topics(admin, names=[TOPIC]),
    "list a group": lambda admin: list_groups(admin, names=[GROUP]),
    "follow a message": lambda admin: message_lives(admin, "order-1"),
    "add a user": lambda admin: AccessAdmin(admin).add_user("ann", "s3cret-of-ann", is_super=True),
    "explain a group": lambda admin: explain_group(admin, GROUP),
    "look who was refused": lambda admin: AccessAdmin(admin).states(),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_an_administrator_waits_for_a_slow_broker_as_long_as_it_was_told(
    world: SimulatedWorld, shop: Shop, work: Callable[[Admin], Awaitable[object]]
) -> None:
    await shop.producer.send(MESSAGE)
    async with Admin(NAMESRV, machine=world.machine("desk", host="10.0.5.1"), timeout_ms=PATIENCE_MS) as admin:
        await admin.groups()  # It is connected before the link becomes slow.
        world.set_link("desk", "broker-a", SLOW)
        await work(admin)
        assert world.uptime_ms > 2 * SLOW.delay_ms


async def test_an_explanation_waits_for_the_fault_rules_of_a_slow_broker(world: SimulatedWorld, shop: Shop) -> None:
    await shop.producer.send(MESSAGE)
    faults = FaultAdmin(shop.admin.client.pool, NAMESRV)
    await faults.add(parse_fault({"code": "PULL_MESSAGE", "broker": "broker-a", "drop": "request"}))
    async with Admin(NAMESRV, machine=world.machine("desk", host="10.0.5.1"), timeout_ms=PATIENCE_MS) as admin:
        await admin.groups()  # It is connected before the link becomes slow.
        world.set_link("desk", "broker-a", SLOW)
        found = await explain_group(admin, GROUP, TOPIC)
    assert "FAULT_RULES" in [one.kind for one in found.findings], str(found)
