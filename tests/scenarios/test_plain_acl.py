"""RocketMQ 4's plain_acl.yml, as its mqadmin reads and changes it. Codes and texts are those of a running 4.9.7."""

from typing import Any

import pytest
import yaml

from staticfire.client import Admin, ClientSettings
from staticfire.protocol.command import Request
from staticfire.protocol.requests.access import (
    AclInfo,
    CreateAcl,
    CreateUser,
    DeleteAclConfig,
    DeleteUser,
    GetAclConfig,
    GetAclVersion,
    GetUser,
    ListAcls,
    ListUsers,
    PlainAccessInfo,
    UpdateAclConfig,
    UpdateUser,
    UpdateWhiteAddresses,
    UserInfo,
)
from staticfire.protocol.requests.faults import GetFaults
from staticfire.protocol.requests.imports import ImportMessages
from staticfire.protocol.requests.journal import GetJournal
from staticfire.protocol.requests.queries import FindMessages
from staticfire.protocol.requests.replication import CopyState
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.runtime.credentials import Credentials
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand
from tests.scenarios.test_access import Asker, send

pytestmark = pytest.mark.row("G7")

PATH = "/plain_acl.yml"
FILE = b"""
globalWhiteRemoteAddresses:
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
- accessKey: adminkey
  secretKey: adminsecret
  admin: true
"""
ADMIN, NORMAL = Credentials("adminkey", "adminsecret"), Credentials("RocketMQ", "12345678")
NEW = Credentials("newaccount", "newsecret1")
RES = "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
PERM = "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
LONG = "cannot be null and length should longer than 6"
DONE = (0, None)


async def opened(world: SimulatedWorld, **settings: Any) -> Asker:
    world.machine("broker-a", "10.0.0.2").files.replace(PATH, FILE)
    return Asker(await Stand(world, plain_acl_file=PATH, **settings).start())


def update(key: str | None = "newaccount", secret: str | None = "newsecret1", **more: object) -> UpdateAclConfig:
    return UpdateAclConfig(key, secret, **more)  # type: ignore[arg-type]


async def test_an_account_is_made_changed_and_removed_at_once(world: SimulatedWorld) -> None:
    asker = await opened(world, old_acl_answers=True)
    made = update(topic_perms="topicN=PUB,topicM=SUB", group_perms="gA=SUB", white_remote_address="10.1.1.*")
    assert await asker.reported(made, ADMIN) == DONE
    assert (await asker.reported(send("topicN"), NEW))[0] == 0
    assert (await asker.reported(send("topicM"), NEW))[0] == 1
    assert await asker.reported(update(topic_perms="topicZ=PUB|SUB", admin=False), ADMIN) == DONE
    assert (await asker.reported(send("topicN"), NEW))[0] == 1, "the list is replaced"
    accounts = (await asker.ask(GetAclConfig(), ADMIN)).body.plain_access_configs
    assert accounts[0] == PlainAccessInfo("RocketMQ", False, "SUB", "DENY", None, "12345678", ["topicA=DENY"], None)
    assert accounts[2] == PlainAccessInfo(
        "newaccount", False, None, None, ["gA=SUB"], "newsecret1", ["topicZ=PUB|SUB"], "10.1.1.*"
    )
    assert await asker.reported(DeleteAclConfig("newaccount"), ADMIN) == DONE
    code, remark = await asker.reported(send("topicZ"), NEW)
    assert (code, remark) == (1, "org.apache.rocketmq.acl.common.AclException: No acl config for newaccount")
    await world.stop("broker-a")
    await asker.stand.start_broker("broker-a")
    assert [one.access_key for one in (await asker.ask(GetAclConfig(), ADMIN)).body.plain_access_configs] == [
        "RocketMQ",
        "adminkey",
    ]
    await asker.close()


@pytest.mark.parametrize(
    ("request_", "outcome"),
    [
        (update("abc", "12345678"), (209, f"The accessKey=abc and secretKey=12345678 {LONG}")),
        (update("abcdefgh", "1234"), (209, f"The accessKey=abcdefgh and secretKey=1234 {LONG}")),
        (update("RocketMQ", None, admin=True), (209, f"The accessKey=RocketMQ and secretKey=null {LONG}")),
        (update(None), (209, f"The accessKey=null and secretKey=newsecret1 {LONG}")),
        (update(topic_perms="topicN=FOO"), (209, f"Parse resource permission error for topicN=FOO.\n{PERM}")),
        (update(topic_perms="topicN"), (209, f"Parse Resource format error for topicN.\n{RES}")),
        (update(group_perms="gB=FOO"), (209, f"Parse resource permission error for gB=FOO.\n{PERM}")),
        (update(white_remote_address="1.2.3"), (209, "Netaddress examine Exception netaddress is 1.2.3")),
        (DeleteAclConfig("x"), (210, "The accesskey[x] corresponding to accessConfig has been deleted failed.")),
        (DeleteAclConfig(), (210, "The accesskey[null] corresponding to accessConfig has been deleted failed.")),
        (UpdateWhiteAddresses(), (211, "The globalWhiteAddresses[null] has been updated failed.")),
        (UpdateWhiteAddresses(""), DONE),
    ],
)
async def test_what_is_refused(world: SimulatedWorld, request_: Request, outcome: tuple[int, str | None]) -> None:
    asker = await opened(world)
    assert await asker.reported(request_, ADMIN) == outcome
    await asker.close()


async def test_white_addresses_need_no_account(world: SimulatedWorld) -> None:
    asker = await opened(world)
    assert (await asker.reported(send("topicA"), None))[0] == 16
    assert (await asker.reported(UpdateWhiteAddresses("1.2.3"), ADMIN))[0] == 211, (
        "RocketMQ can't read its file any more"
    )
    assert await asker.reported(UpdateWhiteAddresses("10.9.9.*,10.0.0.9"), ADMIN) == DONE
    assert (await asker.reported(send("topicA"), None))[0] == 0
    assert (await asker.ask(GetAclConfig(), ADMIN)).body.global_white_addrs == ["10.9.9.*", "10.0.0.9"]
    await asker.close()


async def test_the_file_has_the_types_that_rocketmq_4_expects(world: SimulatedWorld) -> None:
    asker = await opened(world)
    assert await asker.reported(update(admin=True, topic_perms="t=PUB"), ADMIN) == DONE
    written = yaml.safe_load(world.machine("broker-a").files.read_bytes(PATH))
    assert [one["admin"] for one in written["accounts"]] == [False, True, True]
    assert written["accounts"][0]["secretKey"] == "12345678"
    assert written["accounts"][0]["whiteRemoteAddress"] is None
    assert written["dataVersion"][0]["counter"] == 1
    await asker.close()


async def test_the_secret_of_an_account_is_not_in_recorded_requests(world: SimulatedWorld) -> None:
    asker = await opened(world, record_requests=True)
    assert await asker.reported(update(), ADMIN) == DONE
    client = ClientSettings(access_key=ADMIN.access_key, secret_key=ADMIN.secret_key)
    async with Admin(NAMESERVER, client, world.machine("admin", "10.0.0.8")) as admin:
        [found] = await admin.requests("UPDATE_AND_CREATE_ACL_CONFIG")
    assert found.fields == {"accessKey": "newaccount", "secretKey": "******"}
    await asker.close()


async def test_each_change_has_a_version(world: SimulatedWorld) -> None:
    asker = await opened(world)
    assert (await asker.ask(GetAclVersion(), ADMIN)).version == '{"counter":0,"timestamp":0}'
    for _ in range(2):
        assert await asker.reported(update(), ADMIN) == DONE
    answer = await asker.ask(GetAclVersion(), ADMIN)
    assert answer.version.startswith('{"counter":2,"timestamp":1')
    assert answer.all_acl_file_version == f'{{"{PATH}":{answer.version}}}'
    assert (answer.broker_name, answer.cluster_name) == ("broker-a", "DefaultCluster")
    await asker.close()


@pytest.mark.parametrize(
    "request_", [update(), DeleteAclConfig("adminkey"), UpdateWhiteAddresses("*"), GetAclConfig(), GetAclVersion()]
)
async def test_only_admin_accounts_and_super_users_may(world: SimulatedWorld, request_: Request) -> None:
    asker = await opened(world, init_authentication_user='{"username":"root","password":"r00t"}')
    assert (await asker.reported(request_, NORMAL))[0] == 16
    root = Credentials("root", "r00t")
    assert (await asker.ask(CreateUser("plain", body=UserInfo("plain", "p")), root)).code == 0
    assert (await asker.reported(request_, Credentials("plain", "p")))[0] == 16
    assert (await asker.reported(request_, root))[0] == 0
    await asker.close()


@pytest.mark.parametrize(
    "request_",
    [
        CreateUser("evil", body=UserInfo("evil", "p", "Super")),
        UpdateUser("root", body=UserInfo(password="mine")),
        DeleteUser("root"),
        ListUsers(),
        GetUser("root"),
        CreateAcl("User:RocketMQ", body=AclInfo("User:RocketMQ", [])),
        ListAcls(),
        Reset(),
        SaveSnapshot("mine"),
        RestoreSnapshot("mine"),
        GetJournal(),
        FindMessages("k", 1, 0, 1),
        GetFaults(),
        CopyState(),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_what_rocketmq_4_does_not_know_is_for_admins_if_it_is_about_the_cluster(
    world: SimulatedWorld, request_: Request
) -> None:
    asker = await opened(world, init_authentication_user='{"username":"root","password":"r00t"}')
    code, remark = await asker.reported(request_, NORMAL)
    assert (code, "admin" in (remark or "")) == (16, True), remark
    [root] = (await asker.ask(ListUsers(), Credentials("root", "r00t"))).body
    assert (root.username, root.password) == ("root", "r00t")
    await asker.close()


@pytest.mark.parametrize("topic", ["topicA", "topicB"])
async def test_messages_can_not_be_imported_into_a_topic_without_the_permission(
    world: SimulatedWorld, topic: str
) -> None:
    asker = await opened(world)
    code, remark = await asker.reported(ImportMessages(topic, 0, body=[]), NORMAL)
    assert (code, topic in (remark or "")) == (16, True), remark
    await asker.close()


async def test_without_the_file_they_are_unknown_as_to_rocketmq_5_3_3(world: SimulatedWorld) -> None:
    asker = Asker(await Stand(world).start())
    code, remark = await asker.reported(GetAclConfig(), None)
    assert code == 3
    assert (remark or "").startswith(" request type 54 not supported")
    await asker.close()
