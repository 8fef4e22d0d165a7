"""Pulls whose subscription is newer than any heartbeat: refused as in RocketMQ, or unfiltered where that is safe."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.settings import BrokerSettings
from staticfire.launch.plan import GivenSettings, plan_cluster
from staticfire.protocol.codecs.json import JsonCodec
from staticfire.protocol.command import Request
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.pull import FLAG_SUSPEND, PullMessage
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand

pytestmark = pytest.mark.row("P6")

NOT_LATEST = 25
ON = "answerNewerSubscriptionUnfiltered=true"


class InLanguage(JsonCodec):
    """The JSON codec of a client in another language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        ours, theirs = b'"language":"PYTHON"', f'"language":"{self._language}"'.encode()
        frame = super().encode_request(request, opaque, oneway)
        assert frame.count(ours) == 1
        grown = len(theirs) - len(ours)
        size, head = int.from_bytes(frame[:4]) + grown, int.from_bytes(frame[4:8]) + grown
        return size.to_bytes(4) + head.to_bytes(4) + frame[8:].replace(ours, theirs)


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    for tag in ("a", "b"):
        await stand.send("orders", tag.encode(), TAGS=tag)
    yield stand
    await stand.close()


async def pull_newer(
    world: SimulatedWorld,
    language: str,
    offset: int = 0,
    reported: str = "TAG",
    pulled: str | None = "TAG",
    hold_ms: int = 0,
) -> Any:
    """Heartbeat with tag a as version 1, then pull as version 2."""
    pool = ConnectionPool(world.machine(f"client in {language}"), codec_byte=0)
    connection = await pool.connection(ADDRESS)
    connection.codec = InLanguage(language)
    subscription = SubscriptionData("orders", "a", sub_version=1, expression_type=reported)
    data = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [subscription])
    await connection.ask(Heartbeat(body=HeartbeatData(client_id="c", consumer_data_set=[data])), 3_000)
    request = PullMessage(
        "billing", "orders", 0, offset, 32, FLAG_SUSPEND if hold_ms else 0, 0, hold_ms, None, 2, pulled
    )
    try:
        return await connection.ask(request, 30_000)
    finally:
        await pool.close()


async def switch(stand: BrokerStand, text: str = ON) -> None:
    answer = await stand.ask(UpdateBrokerConfig(body=text.encode()))
    assert (answer.code, answer.remark) == (0, None)


@pytest.mark.row("H6")
async def test_it_is_refused_as_in_rocketmq(world: SimulatedWorld, stand: BrokerStand) -> None:
    answer = await pull_newer(world, "JAVA")
    assert (answer.code, answer.remark) == (NOT_LATEST, "the consumer's subscription not latest")


async def test_javas_client_gets_all_and_filters_itself(world: SimulatedWorld, stand: BrokerStand) -> None:
    await switch(stand)
    answer = await pull_newer(world, "JAVA")
    assert [record.body for record in answer.body.records] == [b"a", b"b"]
    await switch(stand, "answerNewerSubscriptionUnfiltered=false")
    assert (await pull_newer(world, "JAVA")).code == NOT_LATEST


async def test_it_is_held_like_any_other(world: SimulatedWorld, stand: BrokerStand) -> None:
    await switch(stand)
    waiting = asyncio.ensure_future(pull_newer(world, "JAVA", offset=2, hold_ms=10_000))
    await world.run_for(seconds=1)
    await stand.send("orders", b"c", TAGS="c")
    assert [record.body for record in (await waiting).body.records] == [b"c"]


@pytest.mark.parametrize("language", ["PYTHON", "GO", "CPP", "NODE_JS", "OTHER"])
async def test_clients_that_may_not_filter_are_refused(
    world: SimulatedWorld, stand: BrokerStand, language: str
) -> None:
    await switch(stand)
    assert (await pull_newer(world, language)).code == NOT_LATEST


@pytest.mark.parametrize(("reported", "pulled"), [("SQL92", "TAG"), ("TAG", "SQL92")])
async def test_it_is_for_tags_only(world: SimulatedWorld, stand: BrokerStand, reported: str, pulled: str) -> None:
    await switch(stand)
    assert (await pull_newer(world, "JAVA", reported=reported, pulled=pulled)).code == NOT_LATEST


def test_it_is_on_in_a_stand_and_off_in_a_broker_by_itself() -> None:
    def is_on(settings: dict[str, str], environment: dict[str, str]) -> bool:
        [broker] = plan_cluster("/tmp", [1], [2], GivenSettings(settings, environment)).brokers
        return broker.answer_newer_subscription_unfiltered

    assert not BrokerSettings().answer_newer_subscription_unfiltered
    assert is_on({}, {})
    assert not is_on({"answerNewerSubscriptionUnfiltered": "false"}, {})
    assert not is_on({}, {"STATICFIRE_ANSWER_NEWER_SUBSCRIPTION_UNFILTERED": "no"})


async def test_a_held_pull_starts_again_where_it_began_when_its_group_wants_more(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    """Clients that change their subscription don't pull again by themselves what the broker has passed over."""
    pool = ConnectionPool(world.machine("member"), codec_byte=0)
    connection = await pool.connection(ADDRESS)

    async def subscribe(expression: str, version: int) -> None:
        wanted = SubscriptionData("orders", expression, sub_version=version)
        data = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [wanted])
        await connection.ask(Heartbeat(body=HeartbeatData(client_id="c", consumer_data_set=[data])), 3_000)

    await subscribe("a", 1)
    request = PullMessage("billing", "orders", 0, 2, 32, FLAG_SUSPEND, 0, 15_000, None, 1, "TAG")
    pull = asyncio.ensure_future(connection.ask(request, 30_000))
    await world.run_for(100)
    await stand.send("orders", b"passed over", TAGS="c")
    await world.run_for(100)
    assert not pull.done()
    await subscribe("a || c", 2)
    answer = await pull
    assert [record.body for record in answer.body.records] == [b"passed over"]
    await pool.close()
