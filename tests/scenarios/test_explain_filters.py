"""Whether an expression matches the newest messages: by its type, not by its text."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import Message
from staticfire.client.admin.group_view import GroupMember, GroupView
from staticfire.client.explain.explainer import explain_group
from staticfire.client.explain.facts import GroupFacts, TopicFacts
from staticfire.client.explain.of_messages import filtered
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop

pytestmark = pytest.mark.row("S4")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world)
    yield await shop.open(queues=1)
    await shop.close()


@pytest.mark.parametrize(
    ("expression", "expression_type", "matches"),
    [
        ("size BETWEEN 0 AND 3", "SQL92", True),
        ("size BETWEEN 5 AND 6", "SQL92", False),
        ("NOT vip", "SQL92", True),
        ("TRUE", "SQL92", True),
        ("paid", "TAG", True),
        ("TRUE", "TAG", False),
        ("size=0", "TAG", False),
    ],
)
async def test_what_an_expression_matches(
    world: SimulatedWorld, shop: Shop, expression: str, expression_type: str, matches: bool
) -> None:
    consumer = shop.consumer("one", topic=None)
    consumer.subscribe(TOPIC, expression, expression_type)
    await world.start("one", consumer)
    for size in range(4):
        message = Message(TOPIC, b"x", tags="paid", properties={"size": str(size), "vip": "false"})
        await shop.producer.send(message)
    await world.run_for(seconds=6)
    kinds = [one.kind for one in (await explain_group(shop.admin, GROUP)).findings]
    assert ("FILTER_MATCHES_NOTHING" in kinds) is not matches
    assert len(shop.bodies) == (4 if matches else 0)


@pytest.mark.parametrize(("expression", "matches"), [("size > 3", False), ("size = 2", True), ("paid", True)])
async def test_a_type_that_is_not_reported_is_guessed(
    world: SimulatedWorld, shop: Shop, expression: str, matches: bool
) -> None:
    sent = await shop.producer.send(Message(TOPIC, b"x", tags="paid", properties={"size": "2"}))
    samples = list(await shop.admin.find(sent.message_id, TOPIC))
    member = GroupMember("one", "10.0.3.1:4000", "PYTHON", "", subscriptions={TOPIC: expression})
    facts = GroupFacts(GROUP, view=GroupView(GROUP, [], members=[member]))
    facts.topics[TOPIC] = TopicFacts(TOPIC, samples=samples)
    assert bool(list(filtered(facts))) is not matches
