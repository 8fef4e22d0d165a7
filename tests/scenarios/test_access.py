"""Users, policies and signatures on a broker. Codes and texts are those of a running RocketMQ 5.3.3."""

from typing import Any

import pytest

from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.command import Request
from staticfire.protocol.requests.access import (
    AclInfo,
    CreateAcl,
    CreateUser,
    DeleteAcl,
    DeleteUser,
    EntryInfo,
    GetAccess,
    GetAcl,
    GetUser,
    ListAcls,
    ListUsers,
    PolicyInfo,
    UpdateUser,
    UserInfo,
)
from staticfire.protocol.requests.clients import (
    ConsumerData,
    GetConsumerList,
    Heartbeat,
    HeartbeatData,
    ProducerData,
    SubscriptionData as Sub,
)
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.send import ManyMessage, SendMany, SendMessageV2
from staticfire.protocol.requests.statistics import GetRuntimeInfo
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.log import logged_to
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("G7")

ROOT, SHOP = Credentials("root", "r00t"), Credentials("shop", "s3cret")
INNER = '{"accessKey":"inner","secretKey":"0123456789"}'
JUDGING = {
    "authentication_enabled": True, "authorization_enabled": True, "inner_client_authentication_credentials": INNER,
    "init_authentication_user": '{"username":"root","password":"r00t"}',
}  # fmt: skip
NO_KEY = (16, "username cannot be null.")
WRONG = (16, "check signature failed.")


class Asker:
    """Sends single requests to one broker, by any user, in either codec."""

    def __init__(self, stand: Stand, broker: str = "broker-a") -> None:
        self.stand = stand
        self.broker = broker
        self._pools: dict[tuple[Any, int], ConnectionPool] = {}

    async def ask(self, request: Request, by: Credentials | None = ROOT, codec: int = JSON) -> Any:
        key = (by and (by.access_key, by.secret_key), codec)
        pool = self._pools.get(key)
        if pool is None:
            machine = self.stand.world.machine(f"program-{len(self._pools)}", "10.0.0.9")
            pool = self._pools[key] = ConnectionPool(machine, codec_byte=codec, credentials=by)
        return await pool.ask(self.stand.brokers[self.broker], request)

    async def reported(
        self, request: Request, by: Credentials | None = SHOP, codec: int = JSON
    ) -> tuple[int, str | None]:
        answer = await self.ask(request, by, codec)
        return answer.code, answer.remark

    async def user(self, name: str = "shop", secret: str = "s3cret", **more: Any) -> None:
        assert (await self.ask(CreateUser(name, body=UserInfo(name, secret, **more)))).code == 0

    async def allow(self, resource: str, *actions: str, decision: str = "Allow", name: str = "shop") -> None:
        assert await self.reported(acl(resource, *actions, decision=decision, name=name), ROOT) == DONE

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()


DONE = (0, "not set any response code")


def acl(resource: str | None, *actions: str, name: str = "shop", decision: str = "Allow", **more: Any) -> CreateAcl:
    entry = EntryInfo(resource, list(actions), decision=decision, **more)
    return CreateAcl(f"User:{name}", body=AclInfo(policies=[PolicyInfo(entries=[entry])]))


def send(topic: str, group: str = "pg") -> SendMessageV2:
    return SendMessageV2(group, topic, "TBW102", 4, 0, 0, 0, 0, "", body=b"x")


def refused(resource: str, why: str = "no matched policies.", name: str = "shop") -> tuple[int, str]:
    return 16, f"User:{name} has no permission to access {resource} from 10.0.0.9, {why}"


async def judging(world: SimulatedWorld, brokers: int = 1, **settings: object) -> Asker:
    return Asker(await Stand(world, brokers, **{**JUDGING, **settings}).start())


@pytest.mark.parametrize("codec", [JSON, NATIVE])
async def test_keys_and_signatures(world: SimulatedWorld, codec: int) -> None:
    asker = await judging(world)
    request = GetRuntimeInfo()
    assert await asker.reported(request, None, codec) == NO_KEY
    assert await asker.reported(request, Credentials("x", "y"), codec) == (16, "User:x is not found.")
    assert await asker.reported(request, Credentials("root", "wrong"), codec) == WRONG
    assert (await asker.reported(request, ROOT, codec))[0] == 0
    assert (await asker.reported(request, Credentials("inner", "0123456789"), codec))[0] == 0
    await asker.close()


async def test_without_users_any_key_is_accepted_and_known(world: SimulatedWorld) -> None:
    asker = Asker(await Stand(world).start())
    for codec in (JSON, NATIVE):
        assert (await asker.reported(send("orders"), SHOP, codec))[0] == 0
        assert (await asker.reported(send("orders"), None, codec))[0] == 0
    state = (await asker.ask(GetAccess(), None)).body
    assert [(one.access_key, one.is_known) for one in state.keys] == [("shop", None), ("shop", None)]
    assert not state.is_judging
    await asker.close()


@pytest.mark.parametrize("codec", [JSON, NATIVE])
async def test_a_first_user_is_enough_and_counts_on_open_connections(world: SimulatedWorld, codec: int) -> None:
    asker = Asker(await Stand(world).start())
    for _ in range(3):
        assert (await asker.reported(send("orders"), None, codec))[0] == 0
        assert (await asker.reported(send("orders"), SHOP, codec))[0] == 0
    assert (await asker.ask(CreateUser("root", body=UserInfo("root", "r00t", "Super")), None)).code == 0
    assert await asker.reported(send("orders"), None, codec) == NO_KEY
    assert await asker.reported(send("orders"), SHOP, codec) == (16, "User:shop is not found.")
    await asker.user()
    assert (await asker.reported(send("orders"), SHOP, codec))[0] == 0, "there is no policy yet"
    await asker.allow("Topic:other", "Pub")
    assert await asker.reported(send("orders"), SHOP, codec) == refused("Topic:orders")
    assert (await asker.ask(DeleteUser("shop"))).code == 0
    change = UpdateBrokerConfig(body=b"authenticationEnabled=false\nauthorizationEnabled=false\n")
    assert (await asker.ask(change)).code == 0
    assert (await asker.reported(send("orders"), None, codec))[0] == 0
    assert (await asker.reported(DeleteUser("root"), None, codec)) == DONE, "nothing is checked any more"
    await asker.close()


@pytest.mark.parametrize("codec", [JSON, NATIVE])
async def test_a_change_counts_from_the_next_request_on(world: SimulatedWorld, codec: int) -> None:
    asker = await judging(world)
    await asker.user()
    assert await asker.reported(send("orders"), SHOP, codec) == refused("Topic:orders")
    await asker.allow("Topic:orders", "Pub")
    assert (await asker.reported(send("orders"), SHOP, codec))[0] == 0
    await asker.allow("Topic:orders", "Pub", decision="Deny")
    assert await asker.reported(send("orders"), SHOP, codec) == refused("Topic:orders", "the decision is deny.")
    assert await asker.reported(DeleteAcl("User:shop"), ROOT) == DONE
    assert await asker.reported(send("orders"), SHOP, codec) == refused("Topic:orders")
    assert await asker.reported(UpdateUser("shop", body=UserInfo(user_status="disable")), ROOT) == DONE
    assert await asker.reported(send("orders"), SHOP, codec) == (16, "User:shop is disabled.")
    await asker.ask(UpdateUser("shop", body=UserInfo(user_status="enable", password="new")))
    assert await asker.reported(send("orders"), SHOP, codec) == WRONG
    await asker.close()


async def test_what_requests_need(world: SimulatedWorld) -> None:
    asker = await judging(world)
    await asker.user()
    pull = PullMessage("GA", "TA", 0, 0, 32, 0, 0, 0, "*")
    assert await asker.reported(pull) == refused("Topic:TA")
    assert await asker.reported(GetConsumerList("GA")) == refused("Group:GA")
    assert await asker.reported(ListUsers()) == refused("Cluster:DefaultCluster")
    assert await asker.reported(UpdateTopic("TA", 1, 1, 6)) == refused("Topic:TA")
    assert (await asker.reported(GetRuntimeInfo()))[0] == 0
    await asker.allow("Topic:TA", "Sub", "Get")
    await asker.allow("Group:GA", "Sub")
    assert (await asker.reported(GetMaxOffset("TA", 0)))[0] != 16
    assert (await asker.reported(pull))[0] not in (1, 16)
    assert (await asker.reported(send("%RETRY%GA", "GA")))[0] == 0
    assert await asker.reported(send("%RETRY%GA", "CLIENT_INNER_PRODUCER")) == refused("Group:CLIENT_INNER_PRODUCER")
    assert (await asker.reported(send("%RETRY%GA", "")))[0] == 0
    assert await asker.reported(send("%DLQ%GA")) == refused("Topic:%DLQ%GA")
    assert await asker.reported(send("RMQ_SYS_TRACE_TOPIC")) == refused("Topic:RMQ_SYS_TRACE_TOPIC")
    await asker.close()


async def test_heartbeats(world: SimulatedWorld) -> None:
    asker = await judging(world)
    await asker.user()
    await asker.allow("Group:GA", "Sub")

    def beat(*groups: str) -> Heartbeat:
        consumers = [ConsumerData(group, subscription_data_set=[Sub(f"%RETRY%{group}")]) for group in groups]
        return Heartbeat(body=HeartbeatData("c", [ProducerData("pg")], consumers))

    assert (await asker.reported(beat()))[0] == 0
    assert (await asker.reported(beat("GA")))[0] == 0
    assert await asker.reported(beat("GA", "GB")) == refused("Group:GB")
    assert await asker.reported(Heartbeat()) == (16, "parse authorization context error.")
    await asker.close()


async def test_of_messages_sent_together_only_the_refused_ones_fail(world: SimulatedWorld) -> None:
    asker = await judging(world)
    await asker.user()
    await asker.allow("Topic:orders", "Pub")
    topics = ["orders", "audit", "orders", "audit"]
    await asker.ask(UpdateTopic("orders", 1, 1, 6))
    many = SendMany("pg", "TBW102", 4, body=[ManyMessage(topic, 0, b"", topic.encode()) for topic in topics])
    answer = await asker.ask(many, SHOP, NATIVE)
    assert [(one.code, one.queue_offset) for one in answer.body] == [(0, 0), (16, -1), (0, 1), (16, -1)]
    assert answer.body[1].remark == refused("Topic:audit")[1]
    only = SendMany("pg", "TBW102", 4, body=[ManyMessage("audit", 0, b"", b"x")])
    assert [one.code for one in (await asker.ask(only, SHOP, NATIVE)).body] == [16]
    await asker.close()


@pytest.mark.parametrize(
    ("request_", "outcome"),
    [
        (CreateUser("root", body=UserInfo("x", "p")), (16, "The user is existed")),
        (CreateUser("u", body=UserInfo("u", " ")), (16, "password can not be blank")),
        (CreateUser("", body=UserInfo("u", "p")), (29, "The username is blank")),
        (UpdateUser("nobody", body=UserInfo()), (16, "The user is not exist")),
        (DeleteUser("nobody"), DONE),
        (DeleteUser(" "), (16, "username can not be blank")),
        (GetUser("nobody"), DONE),
        (acl("Topic:T", "Pub", name="nobody"), (16, "The subject of User:nobody is not exist.")),
        (acl("Foo:T", "Pub", name="root"), (16, "The resource is null.")),
        (acl(None, "Pub", name="root"), (16, "The resource is null.")),
        (acl("Topic:T", "Any", name="root"), (16, "The actions can not be Any.")),
        (acl("Topic:T", "Fly", name="root"), (16, "The actions is empty.")),
        (acl("Topic:T", "Pub", decision="x", name="root"), (16, "The decision is null or illegal.")),
        (acl("Topic:T", "Pub", name="root", source_ips=["1.2.3"]), (16, "The source ip is invalid.")),
        (acl("Topic:T", "Pub", name="root", source_ips=[""]), (16, "The source ip is empty.")),
        (CreateAcl("User:root", body=AclInfo(policies=[PolicyInfo()])), (16, "The policies is empty.")),
        (DeleteAcl("User:root"), (16, "The acl is not exist.")),
        (DeleteAcl("User:nobody"), (16, "The subject is not exist.")),
        (GetAcl("User:nobody"), (16, "The subject is not exist.")),
        (GetAcl("User:root"), DONE),
        (ListAcls(), DONE),
    ],
)
async def test_administration(world: SimulatedWorld, request_: Request, outcome: tuple[int, str]) -> None:
    asker = await judging(world)
    assert await asker.reported(request_, ROOT) == outcome
    await asker.close()


async def test_what_is_kept_is_shown(world: SimulatedWorld) -> None:
    asker = await judging(world)
    await asker.user()
    await asker.allow("Topic:a*", "pub", "SUB")
    await asker.allow("Group:g", "Sub")
    [one] = (await asker.ask(ListAcls("shop", "Topic"))).body
    assert one.subject == "User:shop"
    assert one.policies == [PolicyInfo("Custom", [EntryInfo("Topic:a*", ["Pub", "Sub"], None, "Allow")])]
    assert (await asker.ask(GetUser("shop"))).body == UserInfo("shop", "s3cret", "Normal", "enable")
    assert await asker.reported(DeleteAcl("User:shop", None, "Topic:a*"), ROOT) == DONE
    assert [entry.resource for entry in (await asker.ask(GetAcl("User:shop"))).body.policies[0].entries] == ["Group:g"]
    await asker.close()


async def test_the_last_super_user_stays(world: SimulatedWorld) -> None:
    asker = await judging(world)
    for request in (
        DeleteUser("root"),
        UpdateUser("root", body=UserInfo(user_status="disable")),
        UpdateUser("root", body=UserInfo(user_type="Normal")),
    ):
        code, remark = await asker.reported(request, ROOT)
        assert code == 16
        assert "the last super user" in (remark or "")
    await asker.user("other", "o", user_type="Super")
    assert await asker.reported(DeleteUser("root"), ROOT) == DONE
    await asker.close()


async def test_a_user_of_the_settings_that_has_another_secret_is_announced(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    asker = await judging(world)
    await world.stop("broker-a")
    asker.stand.settings["init_authentication_user"] = '{"username":"root","password":"n3w"}'
    await asker.stand.start_broker("broker-a")
    assert (await asker.reported(GetRuntimeInfo(), ROOT))[0] == 0
    assert await asker.reported(GetRuntimeInfo(), Credentials("root", "n3w")) == WRONG
    [line] = [line for line in logged if line.event == "user_exists"]
    assert line.fields["way_out"] == "staticfire user change root --secret ..."
    assert "n3w" not in repr(line)
    await asker.close()


async def test_users_survive_a_restart_and_secrets_are_not_in_settings(world: SimulatedWorld) -> None:
    asker = await judging(world)
    await asker.user()
    await asker.allow("Topic:orders", "Pub")
    await world.stop("broker-a")
    await asker.stand.start_broker("broker-a")
    assert (await asker.reported(send("orders")))[0] == 0
    assert await asker.reported(send("audit")) == refused("Topic:audit")
    assert "r00t" not in repr(asker.stand.services["broker-a"].settings)
    shown = (await asker.ask(GetBrokerConfig())).body
    assert b"initAuthenticationUser=******" in shown
    assert b"r00t" not in shown
    assert b"0123456789" not in shown
    change = UpdateBrokerConfig(body=b"initAuthenticationUser=whatever\n")
    code, remark = await asker.reported(change, ROOT)
    assert (code, "r00t" in (remark or "")) == (29, False)
    await asker.close()


async def test_settings_switch_it_while_the_broker_runs(world: SimulatedWorld) -> None:
    asker = Asker(await Stand(world, init_authentication_user=JUDGING["init_authentication_user"]).start())
    assert await asker.reported(GetRuntimeInfo(), None) == NO_KEY
    assert (await asker.ask(UpdateBrokerConfig(body=b"authenticationEnabled=false\n"))).code == 0
    assert (await asker.reported(GetRuntimeInfo(), None))[0] == 0
    change = UpdateBrokerConfig(body=b"authenticationEnabled=true\nauthenticationWhitelist=28\n")
    assert (await asker.ask(change)).code == 0
    assert (await asker.reported(GetRuntimeInfo(), None))[0] == 0
    assert await asker.reported(send("orders"), None) == NO_KEY
    await asker.close()


PLAIN = b"""
accounts:
- accessKey: shop-key
  secretKey: '0123456789'
  topicPerms:
  - orders=PUB
"""


async def test_a_plain_acl_file_holds_whatever_the_settings_of_rocketmq_5_say(world: SimulatedWorld) -> None:
    world.machine("broker-a", "10.0.0.2").files.replace("/plain_acl.yml", PLAIN)
    said: list[tuple[str, object]] = []
    with logged_to(lambda _level, event, fields: said.append((event, fields.get("setting")))):
        asker = Asker(
            await Stand(
                world, plain_acl_file="/plain_acl.yml", authentication_enabled=False, authorization_enabled=False,
                init_authentication_user=JUDGING["init_authentication_user"],
            ).start()
        )  # fmt: skip
    assert [setting for event, setting in said if event == "setting_has_no_effect"] == ["authenticationEnabled=false"]
    account = Credentials("shop-key", "0123456789")
    assert await asker.reported(send("orders"), None) == NO_KEY
    assert (await asker.reported(send("orders"), account))[0] == 0
    assert (await asker.reported(send("audit"), account))[0] == 16
    assert await asker.reported(send("orders"), Credentials("shop-key", "wrong")) == WRONG
    assert await asker.reported(send("orders"), Credentials("root", "wrong")) == WRONG, "a user of RocketMQ 5, too"
    assert (await asker.reported(send("audit"), ROOT))[0] == 0
    await asker.close()


async def test_policies_without_signatures(world: SimulatedWorld) -> None:
    asker = await judging(world, authentication_enabled=False)
    await asker.user()
    assert await asker.reported(send("orders"), Credentials("shop", "any")) == refused("Topic:orders")
    assert (await asker.reported(send("orders"), Credentials("root", "any")))[0] == 0
    assert await asker.reported(send("orders"), Credentials("x", "any")) == (16, "User:x not found.")
    words = "Authorization failed. Please verify your access rights and try again."
    assert await asker.reported(send("orders"), None) == (16, words)
    await asker.close()
