"""What a hostile client or user tries against access control."""

import asyncio
import json
import struct
from typing import NamedTuple, cast

import msgspec
import pytest

from staticfire.broker.access.gate import TOO_MANY_FIELDS
from staticfire.broker.access.refusals import LINES_MAX, LINES_MS
from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.limits import HEADER_FIELDS_MAX
from staticfire.protocol.requests.access import (
    CreateUser,
    DeleteAcl,
    DeleteUser,
    GetAccess,
    SignIn,
    UpdateUser,
    UserInfo,
)
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, LitePullMessage, PullMessage
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.statistics import GetRuntimeInfo
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.protocol.signatures import sign, signed_content
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.log import logged_to
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import Stand
from tests.scenarios.test_access import (
    DONE,
    INNER,
    ROOT,
    SHOP,
    WRONG,
    Asker,
    judging,
    refused,
    send,
)

pytestmark = pytest.mark.row("G7")


async def test_only_a_super_user_makes_or_changes_one(world: SimulatedWorld) -> None:
    asker = await judging(world)
    await asker.user()
    await asker.allow("Cluster:DefaultCluster", "Update")
    update = (16, "The super user can only be update by super user")
    made = CreateUser("x", body=UserInfo("x", "p", "super"))
    for codec in (JSON, NATIVE):
        assert await asker.reported(made, SHOP, codec) == (16, "The super user can only be create by super user")
        assert await asker.reported(UpdateUser("shop", body=UserInfo(user_type="Super")), SHOP, codec) == update
        assert await asker.reported(UpdateUser("root", body=UserInfo(password="mine")), SHOP, codec) == update
        assert await asker.reported(DeleteUser("root"), SHOP, codec) == update
    assert await asker.reported(CreateUser("y", body=UserInfo("y", "p"))) == DONE
    assert await asker.reported(UpdateUser("y", body=UserInfo(password="q"))) == DONE
    assert await asker.reported(DeleteUser("y")) == DONE
    await asker.close()


async def test_to_remove_the_last_policy_permits_nothing(world: SimulatedWorld) -> None:
    asker = Asker(await Stand(world, inner_client_authentication_credentials=INNER).start())
    assert (await asker.ask(CreateUser("root", body=UserInfo("root", "r00t", "Super")), None)).code == 0
    await asker.user()
    await asker.user("audit", "a")
    assert (await asker.reported(send("orders")))[0] == 0, "there is no policy yet"
    await asker.allow("Topic:orders", "Pub")
    assert await asker.reported(DeleteAcl("User:shop", None, "Topic:orders"), ROOT) == DONE
    assert await asker.reported(send("orders")) == refused("Topic:orders")
    assert await asker.reported(DeleteAcl("User:shop"), ROOT) == (16, "The acl is not exist.")
    await world.stop("broker-a")
    await asker.stand.start_broker("broker-a")
    assert await asker.reported(send("orders")) == refused("Topic:orders")
    assert await asker.reported(DeleteUser("shop"), ROOT) == DONE
    assert await asker.reported(send("orders"), Credentials("audit", "a")) == refused("Topic:orders", name="audit")
    await asker.close()


async def test_a_signed_bundle_is_checked_once_however_many_topics_are_refused(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = await judging(world)
    await asker.user()
    counted: list[bytes] = []

    def count(secret: str, content: bytes) -> str:
        counted.append(content)
        return sign(secret, content)

    await asker.allow("Topic:orders", "Pub")
    many = SendMany("pg", "TBW102", 4, body=[ManyMessage(f"t{number}", 0, b"", b"x") for number in range(50)])
    assert (await asker.reported(GetRuntimeInfo(), SHOP, NATIVE))[0] == 0
    monkeypatch.setattr("staticfire.broker.access.gate.sign", count)
    assert [one.code for one in (await asker.ask(many, SHOP, NATIVE)).body] == [16] * 50
    assert len(counted) == 2
    await asker.close()


async def test_the_signature_of_a_request_is_no_sign_in(world: SimulatedWorld) -> None:
    class Forged(NamedTuple):
        """What an attacker has after reading a signed request: its key, the signature of a text that begins so."""

        access_key: str
        security_token: str = ""

        def sign_in(self, _: str) -> SignIn:
            fields = {"AccessKey": "root", "queueId": "0", "topic": "orders"}
            return SignIn("root", "0orders", sign("r00t", signed_content(fields)))

    asker = await judging(world)
    pool = ConnectionPool(
        world.machine("forger", "10.0.0.8"), codec_byte=NATIVE, credentials=cast(Credentials, Forged("root"))
    )
    answer = await pool.ask(asker.stand.brokers["broker-a"], GetRuntimeInfo())
    assert (answer.code, answer.remark) == WRONG
    await pool.close()
    await asker.close()


class Recorded(NamedTuple):
    """What an attacker has after reading the sign-in of another client."""

    access_key: str
    recorded: SignIn
    security_token: str = ""

    def sign_in(self, _: str) -> SignIn:
        return self.recorded


async def test_what_a_reader_of_plain_text_can_do(world: SimulatedWorld) -> None:
    """As with RocketMQ: repeat what it has read, until the secret changes; nothing else. With TLS it reads nothing."""
    asker = await judging(world)
    await asker.user()
    await asker.allow("Topic:orders", "Pub")
    recorded = cast(Credentials, Recorded("shop", SHOP.sign_in("0" * 32)))
    thief = ConnectionPool(world.machine("thief", "10.0.0.8"), codec_byte=NATIVE, credentials=recorded)
    broker = asker.stand.brokers["broker-a"]
    assert (await thief.ask(broker, send("orders"))).code == 0, "a sign-in can be repeated"
    assert (await thief.ask(broker, send("audit"))).code == 16, "and may do what the user may"
    replies = [await frame_sent(asker, signed(topic=topic)) for topic in ("orders", "orders", "audit")]
    assert [code for code, _ in replies[:2]] == [0, 0], "so can a request"
    assert replies[2] == WRONG, "but not with another topic"
    await asker.ask(UpdateUser("shop", body=UserInfo(password="changed")))
    assert (await thief.ask(broker, send("orders"))).code == WRONG[0]
    assert (await frame_sent(asker, signed(topic="orders"))) == WRONG
    await thief.close()
    await asker.close()


def signed(topic: str) -> bytes:
    """Return a send whose signature is that of one to the topic `orders`."""
    fields = dict(zip("abcdefghijklm", ("pg", "orders", "TBW102", "4", "0", "0", "1", "0", "", "0", "false", "0", "false"), strict=True))  # fmt: skip  # noqa: E501
    fields["AccessKey"] = "shop"
    signature = sign("s3cret", signed_content(fields, b"x"))
    return framed(310, {**fields, "b": topic, "Signature": signature}, b"x")


def framed(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    head = {"code": code, "language": "JAVA", "version": 479, "opaque": 7, "flag": 0, "extFields": fields}
    header = json.dumps(head).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


class OneFrame(asyncio.Protocol):
    """Sends bytes, and keeps what is returned."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._got = b""
        self.answer: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._data)

    def data_received(self, data: bytes) -> None:
        self._got += data
        size = int.from_bytes(self._got[:4], "big")
        if len(self._got) >= 4 + size and not self.answer.done():
            header = json.loads(self._got[8 : 8 + int.from_bytes(self._got[5:8], "big")])
            self.answer.set_result((header["code"], header.get("remark") or ""))


async def frame_sent(asker: Asker, frame: bytes) -> tuple[int, str]:
    """Send a frame on a connection of its own; return code and remark of the response."""
    wire = OneFrame(frame)
    host, _, port = asker.stand.brokers["broker-a"].rpartition(":")
    await asker.stand.world.machine("thief", "10.0.0.8").network.connect(lambda: wire, host, int(port), 1_000)
    return await wire.answer


@pytest.mark.parametrize("name", ["a", "a\\"], ids=["plain names", "names that look escaped"])
async def test_more_header_fields_than_any_client_sends_are_not_even_sorted(
    world: SimulatedWorld, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = await judging(world)
    monkeypatch.setattr("staticfire.broker.access.gate.sign", None)
    fields = {f"{number}{name}": "" for number in range(HEADER_FIELDS_MAX)}
    assert await frame_sent(asker, framed(28, {**fields, "AccessKey": "root"})) == (16, TOO_MANY_FIELDS)
    monkeypatch.undo()
    within = dict(list(fields.items())[:-2]) | {"AccessKey": "root"}
    assert await frame_sent(asker, framed(28, {**within, "Signature": sign("r00t", signed_content(within))})) == (0, "")
    tricky = {"AccessKey": "root", "properties": '{"a":1}' * 5000}
    assert await frame_sent(asker, framed(28, {**tricky, "Signature": sign("r00t", signed_content(tricky))})) == (0, "")
    await asker.close()


@pytest.mark.parametrize("codec", [JSON, NATIVE])
async def test_a_client_that_invents_users_gets_few_lines_in_the_log(world: SimulatedWorld, codec: int) -> None:
    asker = await judging(world)
    lines: list[str] = []
    with logged_to(lambda _level, event, _fields: lines.append(event)):
        for number in range(LINES_MAX + 20):
            await asker.reported(GetRuntimeInfo(), Credentials(f"u{number}", "x"), codec)
        assert lines.count("access_refused") == LINES_MAX
        await world.run_for(LINES_MS)
        await asker.reported(GetRuntimeInfo(), Credentials("late", "x"), codec)
    assert lines[-2:] == ["access_refusals_left_out", "access_refused"]
    assert len((await asker.ask(GetAccess())).body.refused) == LINES_MAX + 21, "explain has all of them"
    await asker.close()


@pytest.mark.parametrize("codec", [JSON, NATIVE])
@pytest.mark.parametrize(
    "change", ["authenticationEnabled=false", "authorization_enabled=false", "traceOn=true\nauthorizationWhitelist=310"]
)
async def test_a_normal_user_cannot_end_the_checks_by_a_setting(world: SimulatedWorld, codec: int, change: str) -> None:
    asker = await judging(world)
    await asker.user()
    assert (await asker.reported(UpdateBrokerConfig(body=b"traceOn=true"), SHOP, codec))[0] == 0, "as in RocketMQ"
    change_of_access = UpdateBrokerConfig(body=change.encode())
    assert await asker.reported(change_of_access, SHOP, codec) == refused("Cluster:DefaultCluster")
    assert await asker.reported(send("orders"), SHOP, codec) == refused("Topic:orders")
    await asker.allow("Cluster:DefaultCluster", "Update")
    assert (await asker.reported(change_of_access, SHOP, codec))[0] == 0
    await asker.close()


async def test_a_flood_of_refusals_is_remembered_within_limits(
    world: SimulatedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring of recorded requests holds most of what a flood leaves. Its limit is small here."""
    monkeypatch.setattr("staticfire.broker.access.book.DECISIONS_MAX", 50)
    monkeypatch.setattr("staticfire.broker.access.refusals.REFUSALS_MAX", 60)
    asker = await judging(world, record_requests=True, recorded_requests_bytes_max=100_000, journal_enable=True)
    await asker.user()
    broker = asker.stand.services["broker-a"]
    access = broker._core._families.access._control  # house: what a flood leaves takes memory, and is seen nowhere
    journals = broker.tables.journals
    assert journals is not None
    most_decisions = 0
    for number in range(400):
        name = f"t{number}"
        await asker.reported(send(name, group=f"g{number}"))
        await asker.reported(GetRuntimeInfo(), Credentials(f"u{number % 5}", f"{number}"))
        most_decisions = max(most_decisions, len(access.book._decisions))  # house: the same
    await world.run_for(seconds=1)
    assert most_decisions == 50
    assert len(access.refusals.of_group("")) == 60
    requests = journals._reads  # house: the same
    assert 50_000 < requests._held_bytes <= 100_000  # house: the same
    assert requests.first_number > 1, "the oldest requests are gone"
    assert max(map(len, access._peers._keys.values())) == 1  # house: the same
    await asker.close()


async def test_what_a_stolen_signature_can_be_used_for(world: SimulatedWorld) -> None:
    """As in RocketMQ, values are signed one after the other, without names and without the request's code."""
    asker = await judging(world)
    for name in ("orders", "ders"):
        assert (await asker.ask(UpdateTopic(name, 1, 1, 6))).code == 0
    stolen = {"AccessKey": "root", "topic": "orders"}
    signature = sign("r00t", signed_content(stolen))
    read, delete = int(RequestCode.GET_TOPIC_CONFIG), int(RequestCode.DELETE_TOPIC_IN_BROKER)
    assert (await frame_sent(asker, framed(read, {**stolen, "Signature": signature})))[0] == 0
    shifted = {"AccessKey": "root", "a": "or", "topic": "ders", "Signature": signature}
    assert (await frame_sent(asker, framed(read, shifted)))[0] == 0, "another value with the same text"
    assert (await frame_sent(asker, framed(delete, {**stolen, "Signature": signature})))[0] == 0, "another code"
    assert await frame_sent(asker, framed(delete, {**stolen, "topic": "other", "Signature": signature})) == WRONG
    await asker.close()


async def test_what_a_user_reaches_without_a_policy_about_it(world: SimulatedWorld) -> None:
    """As in RocketMQ, whose rules programs rely on: the right to consume as one group opens more than that."""
    asker = await judging(world)
    await asker.user()
    await asker.allow("Group:mine", "Sub")
    assert (await asker.ask(send("audit"))).code == 0
    pull = PullMessage("mine", "audit", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 15_000, "*")
    assert await asker.reported(pull) == refused("Topic:audit")
    lite = LitePullMessage("mine", "audit", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 15_000, "*")
    assert (await asker.reported(lite))[0] == 0, "lite pulls have no rule"
    returned = SendBack(0, "mine", 0, max_reconsume_times=16)
    assert (await asker.reported(returned))[0] == 0, "a message of any topic, as if the group had it"
    assert (await asker.reported(send("%RETRY%other", group="mine")))[0] == 0, "a retry for another group"
    assert (await asker.reported(msgspec.structs.replace(pull, topic="%RETRY%other")))[0] == 0, "and to read it"
    await asker.close()


async def test_a_pull_that_is_held_when_its_user_is_removed_is_the_last_one(world: SimulatedWorld) -> None:
    """As in RocketMQ: what was permitted is answered; the next request is refused, after a restart, too."""
    asker = await judging(world)
    await asker.user()
    await asker.allow("*", "Pub", "Sub")
    assert (await asker.ask(UpdateTopic("orders", 1, 1, 6))).code == 0
    pull = PullMessage("mine", "orders", 0, 0, 32, FLAG_SUSPEND | FLAG_SUBSCRIPTION, 0, 15_000, "*")
    held = asyncio.get_running_loop().create_task(asker.reported(pull))
    await world.run_for(seconds=1)
    assert not held.done()
    assert await asker.reported(DeleteUser("shop"), ROOT) == DONE
    assert (await asker.ask(send("orders"))).code == 0
    assert (await held)[0] == 0
    gone = (16, "User:shop is not found.")
    assert await asker.reported(pull) == gone
    await world.stop("broker-a")
    await asker.stand.start_broker("broker-a")
    assert await asker.reported(pull) == gone
    await asker.close()
