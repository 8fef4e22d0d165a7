"""Users and policies for gRPC clients. Codes and texts are those of a running RocketMQ 5.3.3."""

import asyncio
import hmac
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import Admin, ClientSettings
from staticfire.client.admin.access import AccessAdmin
from staticfire.client.explain.explainer import explain_group
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.access_needs import presented_by
from staticfire.proxy.transport.calls import SERVICE, GrpcCall, as_it_travels
from staticfire.proxy.transport.grpc_words import RequestReader
from staticfire.runtime.credentials import Credentials
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.grpc_stand import BYTES_MAX, GROUP, TOPIC, GrpcStand, over_the_wire, resource
from tests.scenarios.stand import NAMESERVER

pytestmark = pytest.mark.row("G7")

WHITELISTS = ("authentication_whitelist", "authorization_whitelist")
INNER = Credentials("inner", "0123456789")
WRONG = (pb.Code.UNAUTHORIZED, "check signature failed.")


def signed(key: str = "shop", secret: str = "s3cret", date: str = "20260101T000000Z") -> dict[str, str]:
    signature = hmac.digest(secret.encode(), date.encode(), "sha1").hex().upper()
    words = f"MQv2-HMAC-SHA1 Credential={key}/cn/RocketMQ, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": words, "x-mq-date-time": date}


def refused(named: str) -> tuple[int, str]:
    words = f"User:shop has no permission to access {named} from 10.0.0.40, no matched policies."
    return pb.Code.UNAUTHORIZED, words


class Guarded:
    """A cluster that has users as soon as a test adds one, and calls with any metadata."""

    def __init__(self, stand: GrpcStand) -> None:
        self.stand = stand

    def _call(self, name: str, client_id: str | None, metadata: dict[str, str]) -> GrpcCall:
        call = self.stand.grpc_call(name, client_id)
        call.metadata = {**call.metadata, **metadata}
        return call

    async def call(self, name: str, metadata: dict[str, str], client_id: str | None = "c1", **fields: Any) -> Any:
        request = getattr(pb, f"{name}Request")(**fields)
        handler = self.stand.methods[f"{SERVICE}/{name}"].handler
        status = (await handler(over_the_wire(request), self._call(name, client_id, metadata))).status
        return status.code, status.message

    async def route(self, metadata: dict[str, str], client_id: str | None = "c1", topic: str = TOPIC) -> Any:
        return await self.call("QueryRoute", metadata, client_id, topic=resource(topic), endpoints=ENDPOINTS)

    async def receive(self, metadata: dict[str, str]) -> list[Any]:
        request = pb.ReceiveMessageRequest(
            group=resource(GROUP), message_queue=pb.MessageQueue(topic=resource(TOPIC)), batch_size=1
        )
        handler = self.stand.methods[f"{SERVICE}/ReceiveMessage"].handler
        reader = RequestReader(BYTES_MAX)
        stream = handler(over_the_wire(request), self._call("ReceiveMessage", "c1", metadata))
        answers = b"".join([as_it_travels(answer) async for answer in stream])
        return [pb.ReceiveMessageResponse.FromString(each) for each in reader.feed(answers)]

    async def settings(self, metadata: dict[str, str], settings: pb.Settings) -> list[Any]:
        async def commands() -> AsyncIterator[pb.TelemetryCommand]:
            yield pb.TelemetryCommand(settings=settings)

        handler = self.stand.methods[f"{SERVICE}/Telemetry"].handler
        return [answer async for answer in handler(commands(), self._call("Telemetry", "c1", metadata))]

    def admin(self) -> Admin:
        settings = ClientSettings.signing(INNER)
        return Admin(NAMESERVER, settings, self.stand.world.machine("admin", "10.0.0.8"))


ENDPOINTS = pb.Endpoints(scheme=pb.AddressScheme.IPv4, addresses=[pb.Address(host="127.0.0.1", port=8081)])


@pytest_asyncio.fixture
async def guarded(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Guarded]:
    """The settings of the broker that a test is parametrized with are added."""
    stand = GrpcStand(world, inner_client_authentication_credentials=INNER.text, **getattr(request, "param", {}))
    stand.client_settings = ClientSettings.signing(INNER)
    await stand.start()
    await stand.put_topic()
    yield Guarded(stand)
    await stand.close()


async def test_without_users_no_call_is_passed_on(guarded: Guarded) -> None:
    assert await guarded.route({}) == (pb.Code.OK, "OK")
    assert (await guarded.route(signed("anybody", "anything")))[0] == pb.Code.OK


async def test_keys_and_signatures(guarded: Guarded) -> None:
    assert (await guarded.route({}))[0] == pb.Code.OK
    async with guarded.admin() as admin:
        await AccessAdmin(admin).add_user("shop", "s3cret")
    assert await guarded.route({}) == (pb.Code.UNAUTHORIZED, "username cannot be null.")
    assert await guarded.route({}, client_id=None) == (pb.Code.UNAUTHORIZED, "username cannot be null.")
    assert await guarded.route(signed("nobody")) == (pb.Code.UNAUTHORIZED, "User:nobody is not found.")
    assert await guarded.route(signed(secret="wrong")) == WRONG
    assert (await guarded.route(signed()))[0] == pb.Code.OK
    assert (await guarded.route(signed(date="hello")))[0] == pb.Code.OK
    lower = {name: text.lower() if name == "x" else text for name, text in signed().items()}
    lower["authorization"] = lower["authorization"].rpartition("=")[0] + "=" + signed()["authorization"][-40:].lower()
    assert (await guarded.route(lower))[0] == pb.Code.OK


@pytest.mark.parametrize(
    ("header", "date", "problem"),
    [
        ("a b=c", "", "datetime is null."),
        ("word", "now", "authentication header is incorrect."),
        ("a b", "now", "authentication keyValues length is incorrect, actual length=1."),
        ("a Credential=k, Signature=zz", "now", "create authentication context error."),
        ("a Credential=k, Signature=0", "now", "create authentication context error."),
    ],
)
async def test_metadata_that_cannot_be_read(guarded: Guarded, header: str, date: str, problem: str) -> None:
    metadata = {"authorization": header, "x-mq-date-time": date}
    assert presented_by(metadata).problem == problem
    assert (await guarded.route(metadata))[0] == pb.Code.OK, "it isn't read while nothing is judged"
    async with guarded.admin() as admin:
        await AccessAdmin(admin).add_user("shop", "s3cret")
    assert await guarded.route(metadata) == (pb.Code.UNAUTHORIZED, problem)


@pytest.mark.parametrize(
    ("guarded", "unsigned"),
    [
        ({"authorization_whitelist": "QueryRouteRequest"}, pb.Code.UNAUTHORIZED),
        (dict.fromkeys(WHITELISTS, "AckMessageRequest, QueryRouteRequest"), pb.Code.OK),
        (dict.fromkeys(WHITELISTS, "apache.rocketmq.v2.QueryRouteRequest"), pb.Code.OK),
    ],
    indirect=["guarded"],
)
async def test_calls_that_need_no_signature_or_no_policy(guarded: Guarded, unsigned: int) -> None:
    async with guarded.admin() as admin:
        access = AccessAdmin(admin)
        await access.add_user("shop", "s3cret")
        await access.set_policy("shop", "Allow", "Topic:other", ["Pub"])
    assert (await guarded.route(signed()))[0] == pb.Code.OK
    assert (await guarded.route({}))[0] == unsigned
    message = pb.Message(topic=resource(TOPIC), body=b"x")
    assert await guarded.call("SendMessage", signed(), messages=[message]) == refused(f"Topic:{TOPIC}")


async def test_what_calls_need(guarded: Guarded) -> None:
    async with guarded.admin() as admin:
        access = AccessAdmin(admin)
        await access.add_user("shop", "s3cret")
        await access.set_policy("shop", "Allow", f"Topic:{TOPIC}", ["Pub", "Sub"])
        assert await guarded.route(signed(), topic="other") == refused("Topic:other")
        message = pb.Message(topic=resource("other"), body=b"x")
        assert await guarded.call("SendMessage", signed(), messages=[message]) == refused("Topic:other")
        assert await guarded.call("SendMessage", signed()) == (pb.Code.UNAUTHORIZED, "message is null.")
        kind = pb.ClientType.SIMPLE_CONSUMER
        beat = await guarded.call("Heartbeat", signed(), client_type=kind, group=resource(GROUP))
        assert beat == refused(f"Group:{GROUP}")
        [response] = await guarded.receive(signed())
        assert (response.status.code, response.status.message) == refused(f"Group:{GROUP}")
        consumer = pb.Settings(client_type=kind, subscription=pb.Subscription(group=resource(GROUP)))
        [command] = await guarded.settings(signed(), consumer)
        assert (command.status.code, command.status.message) == refused(f"Group:{GROUP}")
        assert not command.HasField("settings")
        await access.set_policy("shop", "Allow", f"Group:{GROUP}", ["Sub"])
        [command] = await guarded.settings(signed(), consumer)
        assert command.status.code == pb.Code.OK
        state = (await access.states())["broker-a"]
        assert any(one.request == "TelemetryCommand" for one in state.refused) is False, "the change forgets them"


async def test_a_frozen_broker_lets_no_call_pass_that_it_has_not_judged(guarded: Guarded) -> None:
    async with guarded.admin() as admin:
        await AccessAdmin(admin).add_user("shop", "s3cret")
    await guarded.stand.stop_proxy()
    await guarded.stand.start_proxy()  # It doesn't know yet that anything is judged.
    guarded.stand.world.freeze("broker-a")
    assert (await guarded.route({}))[0] == pb.Code.PROXY_TIMEOUT
    guarded.stand.world.thaw("broker-a")
    assert await guarded.route({}) == (pb.Code.UNAUTHORIZED, "username cannot be null.")


async def test_a_user_who_is_added_while_a_call_is_judged_closes_the_endpoint(guarded: Guarded) -> None:
    world = guarded.stand.world
    async with guarded.admin() as admin:
        access = AccessAdmin(admin)
        await guarded.route({})
        await access.add_user("shop", "s3cret")
        await access.remove_user("shop")
        judged = asyncio.ensure_future(guarded.route({}))
        await world.run_for(ms=0)
        world.freeze("proxy")  # It reads the response and the change at once.
        await world.run_for(ms=20)
        await access.add_user("shop", "s3cret")
        await world.run_for(ms=20)
        world.thaw("proxy")
    assert (await judged)[0] == pb.Code.OK, "the broker judged it before"
    assert await guarded.route({}) == (pb.Code.UNAUTHORIZED, "username cannot be null.")


async def test_a_change_counts_from_the_next_call_on_and_a_restart_keeps_it(guarded: Guarded) -> None:
    async with guarded.admin() as admin:
        access = AccessAdmin(admin)
        await access.add_user("shop", "s3cret")
        assert (await guarded.route(signed()))[0] == pb.Code.OK
        await access.change_user("shop", is_enabled=False)
        assert await guarded.route(signed()) == (pb.Code.UNAUTHORIZED, "User:shop is disabled.")
        await access.change_user("shop", is_enabled=True)
        await guarded.stand.world.stop("broker-a")
        assert (await guarded.route(signed()))[0] == pb.Code.INTERNAL_SERVER_ERROR, "nobody can say who it is"
        await guarded.stand.cluster.start_broker("broker-a")
        assert await guarded.route({}) == (pb.Code.UNAUTHORIZED, "username cannot be null.")
        assert (await guarded.route(signed()))[0] == pb.Code.OK
        await access.remove_user("shop")
        assert (await guarded.route({}))[0] == pb.Code.OK


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (ClientSettings(), "no access key was sent"),
        (ClientSettings(access_key="nobody", secret_key="x"), "there is no user nobody"),
        (ClientSettings(access_key="shop", secret_key="s3cret"), "user shop may not Update on Cluster:DefaultCluster"),
    ],
    ids=["no key", "unknown", "not a super user"],
)
async def test_an_endpoint_that_brokers_refuse_is_explained(guarded: Guarded, key: ClientSettings, why: str) -> None:
    async with guarded.admin() as admin:
        await AccessAdmin(admin).add_user("shop", "s3cret")
        await AccessAdmin(admin).set_policy("shop", "Allow", "*", ["Pub", "Sub"])
        await guarded.stand.stop_proxy()
        guarded.stand.client_settings = key
        await guarded.stand.start_proxy()
        assert (await guarded.route(signed()))[0] == pb.Code.UNAUTHORIZED
        [finding, *_] = (await explain_group(admin, "billing")).findings
        assert finding.words.startswith("the gRPC endpoint at 10.0.0.30")
        assert finding.words.endswith(f"refuses all its clients, because brokers refuse it: {why}")
        assert "innerClientAuthenticationCredentials" in finding.way_out
        assert finding.is_cause
