"""What a hostile client or user tries against access control."""

from typing import NamedTuple, cast

import pytest

from staticfire.broker.access.refusals import LINES_MAX, LINES_MS
from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.requests.access import (
    CreateUser,
    DeleteAcl,
    DeleteUser,
    GetAccess,
    SignIn,
    UpdateUser,
    UserInfo,
)
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.statistics import GetRuntimeInfo
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
        assert await asker.told(made, SHOP, codec) == (16, "The super user can only be create by super user")
        assert await asker.told(UpdateUser("shop", body=UserInfo(user_type="Super")), SHOP, codec) == update
        assert await asker.told(UpdateUser("root", body=UserInfo(password="mine")), SHOP, codec) == update
        assert await asker.told(DeleteUser("root"), SHOP, codec) == update
    assert await asker.told(CreateUser("y", body=UserInfo("y", "p"))) == DONE
    assert await asker.told(UpdateUser("y", body=UserInfo(password="q"))) == DONE
    assert await asker.told(DeleteUser("y")) == DONE
    await asker.close()


async def test_to_remove_the_last_policy_permits_nothing(world: SimulatedWorld) -> None:
    asker = Asker(await Stand(world, inner_client_authentication_credentials=INNER).start())
    assert (await asker.ask(CreateUser("root", body=UserInfo("root", "r00t", "Super")), None)).code == 0
    await asker.user()
    await asker.user("audit", "a")
    assert (await asker.told(send("orders")))[0] == 0, "there is no policy yet"
    await asker.allow("Topic:orders", "Pub")
    assert await asker.told(DeleteAcl("User:shop", None, "Topic:orders"), ROOT) == DONE
    assert await asker.told(send("orders")) == refused("Topic:orders")
    assert await asker.told(DeleteAcl("User:shop"), ROOT) == (16, "The acl is not exist.")
    await world.stop("broker-a")
    await asker.stand.start_broker("broker-a")
    assert await asker.told(send("orders")) == refused("Topic:orders")
    assert await asker.told(DeleteUser("shop"), ROOT) == DONE
    assert await asker.told(send("orders"), Credentials("audit", "a")) == refused("Topic:orders", name="audit")
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
    assert (await asker.told(GetRuntimeInfo(), SHOP, NATIVE))[0] == 0
    monkeypatch.setattr("staticfire.broker.access.gate.sign", count)
    assert [one.code for one in (await asker.ask(many, SHOP, NATIVE)).body] == [16] * 50
    assert len(counted) == 2
    await asker.close()


async def test_the_signature_of_a_request_is_no_sign_in(world: SimulatedWorld) -> None:
    class Forged(NamedTuple):
        """What somebody has who has read one signed request: the key, and the signature of a text that begins so."""

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


@pytest.mark.parametrize("codec", [JSON, NATIVE])
async def test_a_client_that_invents_users_gets_few_lines_in_the_log(world: SimulatedWorld, codec: int) -> None:
    asker = await judging(world)
    lines: list[str] = []
    with logged_to(lambda _level, event, _fields: lines.append(event)):
        for number in range(LINES_MAX + 20):
            await asker.told(GetRuntimeInfo(), Credentials(f"u{number}", "x"), codec)
        assert lines.count("access_refused") == LINES_MAX
        await world.run_for(LINES_MS)
        await asker.told(GetRuntimeInfo(), Credentials("late", "x"), codec)
    assert lines[-2:] == ["access_refusals_left_out", "access_refused"]
    assert len((await asker.ask(GetAccess())).body.refused) == LINES_MAX + 21, "explain has all of them"
    await asker.close()
