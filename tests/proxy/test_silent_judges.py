"""Brokers that decide about the calls of gRPC clients, and one of which doesn't respond."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from staticfire.client import ClientSettings
from staticfire.client.admin.access import AccessAdmin
from staticfire.protocol.requests.access import CreateUser, UserInfo
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.judges import PATIENCE_MS
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.proxy.grpc_stand import TOPIC, GrpcStand, resource
from tests.proxy.test_access import INNER, WRONG, Guarded, signed

pytestmark = pytest.mark.row("G7")

CALL_MS_MAX = 300


@asynccontextmanager
async def two_brokers(world: SimulatedWorld) -> AsyncIterator[Guarded]:
    """Two brokers that the endpoint knows from its routes; broker-a is asked first."""
    stand = GrpcStand(world, brokers=2, inner_client_authentication_credentials=INNER.text)
    stand.client_settings = ClientSettings.signing(INNER)
    await stand.start()
    for broker in ("broker-a", "broker-b"):
        await stand.put_topic(TOPIC, broker=broker)
    guarded = Guarded(stand)
    assert (await guarded.route({}))[0] == pb.Code.OK
    yield guarded
    for name in ("broker-a", "broker-b"):
        world.thaw(name)
    await stand.close()


async def add_user(guarded: Guarded) -> None:
    async with guarded.admin() as admin:
        await AccessAdmin(admin).add_user("shop", "s3cret")


async def ended(guarded: Guarded, metadata: dict[str, str]) -> Any:
    """Make a call that needs no broker but the one that checks it; it has passed if it is found to end nothing."""
    code, words = await guarded.call("EndTransaction", metadata, topic=resource(TOPIC), transaction_id="unknown")
    return "passed" if "cannot found transaction data" in words else (code, words)


async def timed(guarded: Guarded, metadata: dict[str, str]) -> tuple[Any, int]:
    began_ms = guarded.stand.world.uptime_ms
    answer = await ended(guarded, metadata)
    return answer, guarded.stand.world.uptime_ms - began_ms


@pytest.mark.parametrize("how", ["frozen", "cut off"])
async def test_a_silent_broker_delays_no_call_that_another_can_check(world: SimulatedWorld, how: str) -> None:
    async with two_brokers(world) as guarded:
        await add_user(guarded)
        if how == "frozen":
            world.freeze("broker-a")
        else:
            world.partition("proxy", "broker-a")
        for _ in range(40):
            for metadata, expected in ((signed(), "passed"), (signed(secret="wrong"), WRONG)):
                answer, took_ms = await timed(guarded, metadata)
                assert answer == expected
                assert took_ms < CALL_MS_MAX
            await world.run_for(ms=200)
        world.thaw("broker-a")
        world.heal("proxy", "broker-a")
        await world.run_for(seconds=4)
        world.freeze("broker-b")
        for _ in range(3):
            answer, took_ms = await timed(guarded, signed())
            assert (answer, took_ms < CALL_MS_MAX) == ("passed", True), "broker-a is asked again"


@pytest.mark.parametrize(("silent", "slow"), [("broker-a", "broker-b"), ("broker-b", "broker-a")])
async def test_a_silent_broker_delays_no_call_for_which_the_other_one_needs_longer(
    world: SimulatedWorld, silent: str, slow: str
) -> None:
    """Each check at the slow one takes 0.2 s, the first one 0.4 s, because it connects."""
    async with two_brokers(world) as guarded:
        await add_user(guarded)
        world.set_link("proxy", slow, LinkQuality(delay_ms=100))
        world.freeze(silent)
        for _ in range(20):
            for metadata, expected in ((signed(), "passed"), (signed(secret="wrong"), WRONG)):
                for answer, took_ms in await asyncio.gather(*(timed(guarded, metadata) for _ in range(2))):
                    assert answer == expected
                    assert took_ms <= 400 + PATIENCE_MS
            await world.run_for(ms=200)


async def test_calls_at_the_same_time_as_the_first_silence_are_in_time(world: SimulatedWorld) -> None:
    async with two_brokers(world) as guarded:
        await add_user(guarded)
        world.freeze("broker-a")
        for answer, took_ms in await asyncio.gather(*(timed(guarded, signed()) for _ in range(20))):
            assert (answer, took_ms < CALL_MS_MAX) == ("passed", True)


async def test_nothing_passes_while_no_broker_responds(world: SimulatedWorld) -> None:
    async with two_brokers(world) as guarded:
        await add_user(guarded)
        for name in ("broker-a", "broker-b"):
            world.freeze(name)
        for _ in range(3):
            answer, _ = await timed(guarded, signed())
            assert answer[0] == pb.Code.PROXY_TIMEOUT


async def test_a_broker_without_users_opens_nothing_while_one_before_is_only_slow(world: SimulatedWorld) -> None:
    """broker-a alone has a user, as after `mqadmin createUser -b`."""
    async with two_brokers(world) as guarded:
        user = CreateUser("shop", body=UserInfo("shop", "s3cret", "Super"))
        assert (await guarded.stand.cluster.ask(guarded.stand.cluster.brokers["broker-a"], user)).code == 0
        for frozen_s in (0.5, 2.5):
            world.freeze("broker-a")
            calling = asyncio.ensure_future(ended(guarded, signed(secret="wrong")))
            await world.run_for(seconds=frozen_s)
            second = asyncio.ensure_future(ended(guarded, {}))
            await world.run_for(ms=10)
            world.thaw("broker-a")
            assert await calling == WRONG
            assert await second == (pb.Code.UNAUTHORIZED, "username cannot be null.")
