"""The commands that `explain` and `create` recommend: each is run, changes one thing, and keeps all other values."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from staticfire import Cluster
from staticfire.client import Admin
from staticfire.client.admin.group_view import GroupMember, GroupWarning
from staticfire.client.explain.explanation import explain
from staticfire.client.explain.facts import GroupFacts, QueueFacts
from staticfire.client.explain.gathering import FactsReader
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.groups import GroupRetryPolicy, SubscriptionGroupConfig
from staticfire.protocol.requests.topics import UpdateTopic
from tests.cli.commands import call, one_line
from tests.cli.ways_out import commands_in

pytestmark = pytest.mark.row("S4")

TOPIC, GROUP = "wide", "billing"
STABLE = "stableTimeMs"
Values = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers of a cluster that hasn't the usual name."""
    with Cluster(brokers=2, settings={"brokerClusterName": "Stand"}) as cluster:
        yield cluster


async def prepare(admin: Admin) -> None:
    """Give the topic and the group values that aren't the defaults. They differ between the brokers."""
    for number, (name, address) in enumerate((await admin.masters()).items()):
        reads, writes = (16, 12) if number == 0 else (6, 10)
        topic = UpdateTopic(
            TOPIC, reads, writes, 2, "TBW102", "SINGLE_TAG", 1, order=True, attributes="+message.type=FIFO"
        )
        await admin.client.pool.ask(address, topic)
        config = SubscriptionGroupConfig(
            GROUP, consume_enable=False, consume_broadcast_enable=False, consume_from_min_enable=number == 0,
            consume_message_orderly=True, retry_queue_nums=2, retry_max_times=3 + number, consume_timeout_minute=7,
            group_retry_policy=GroupRetryPolicy(), attributes={STABLE: "30000"},
        )  # fmt: skip
        await admin.create_group(config, broker_name=name)


async def values(admin: Admin) -> Values:
    """Return all values of the topic, the group and the brokers: one for each broker and name."""
    found: Values = {}
    for name, address in (await admin.masters()).items():
        config = await admin.client.pool.ask(address, GetBrokerConfig())
        topic, group = await admin.topic_config(TOPIC, name), await admin.group_config(GROUP, name)
        for kind, one in (("topic", topic), ("group", group)):
            found |= {f"{name} {kind} {field}": value for field, value in msgspec.to_builtins(one).items()}
        settings = {f"{name} {line.partition('=')[0]}": line for line in config.body.decode().splitlines()}
        found |= {setting: line for setting, line in settings.items() if not setting.endswith(" staticfireClock")}
    return found


def with_admin(cluster: Cluster, ask: Callable[[Admin], Any]) -> Any:
    async def work() -> Any:
        async with Admin(cluster.namesrv) as admin:
            return await ask(admin)

    return asyncio.run(work())


def closed_broker(facts: GroupFacts) -> None:
    facts.states["broker-b"].answers_pulls = False


def hidden_messages(facts: GroupFacts) -> None:
    (queue,) = (one for one in facts.topics[TOPIC].hidden if one.queue.queue_id == 9)
    queue.end = 3


def many_members(facts: GroupFacts) -> None:
    topic = facts.topics[TOPIC]
    queue: QueueFacts = topic.queues[0]
    queue.owners = ["client-0"]
    facts.view.members = [
        GroupMember(f"client-{number}", "10.0.0.1:1", "JAVA", "", subscriptions={TOPIC: "*"}) for number in range(23)
    ]


def waiting_member(facts: GroupFacts) -> None:
    facts.view.warnings.append(GroupWarning("WAITING_MEMBER", "a member waits"))


def broadcasting(facts: GroupFacts) -> None:
    facts.view.message_model = "BROADCASTING"


def as_it_is(_: GroupFacts) -> None:
    pass


READS, WRITES = "topic readQueueNums", "topic writeQueueNums"


@pytest.mark.parametrize(
    ("kind", "see", "changed"),
    [
        ("TOPIC_NOT_READABLE", as_it_is, {"broker-a topic perm": 6, "broker-b topic perm": 6}),
        ("GROUP_DISABLED", as_it_is, {"broker-a group consumeEnable": True, "broker-b group consumeEnable": True}),
        (
            "BROADCAST_DISABLED",
            broadcasting,
            {"broker-a group consumeBroadcastEnable": True, "broker-b group consumeBroadcastEnable": True},
        ),
        (
            "WAITING_MEMBER",
            waiting_member,
            {"broker-a group attributes": {STABLE: "0"}, "broker-b group attributes": {STABLE: "0"}},
        ),
        ("QUEUES_NOT_READ", hidden_messages, {f"broker-b {READS}": 16}),
        (
            "MORE_MEMBERS_THAN_QUEUES",
            many_members,
            {f"{name} {field}": 23 for name in ("broker-a", "broker-b") for field in (READS, WRITES)},
        ),
        ("BROKER_NOT_READABLE", closed_broker, {"broker-b brokerPermission": "brokerPermission=6"}),
    ],
)
def test_what_explain_recommends_changes_one_thing(
    cluster: Cluster, kind: str, see: Callable[[GroupFacts], None], changed: Values
) -> None:
    async def look(admin: Admin) -> tuple[list[str], Values]:
        await prepare(admin)
        if kind == "BROKER_NOT_READABLE":  # broker-a keeps the permission that it has before maintenance.
            for name, permission in (("broker-a", "4"), ("broker-b", "2")):
                await set_permission(admin, name, permission)
        facts = await FactsReader(admin, GROUP, TOPIC).read()
        see(facts)
        (finding,) = (one for one in explain(facts).findings if one.kind == kind)
        return commands_in(finding.way_out), await values(admin)

    (recommended,), before = with_admin(cluster, look)
    done = call(*recommended.split(), "-n", cluster.namesrv)
    assert done.returncode == 0, done.stderr
    after = with_admin(cluster, values)
    assert {name: value for name, value in after.items() if before.get(name) != value} == changed
    assert after.keys() == before.keys()


async def set_permission(admin: Admin, broker: str, permission: str) -> None:
    address = (await admin.masters())[broker]
    await admin.client.pool.ask(address, UpdateBrokerConfig(body=b"brokerPermission=" + permission.encode()))


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("create wide --perm 4", {"topic perm": 4}),
        ("create wide --queues 5", {READS: 5, WRITES: 5}),
        ("create wide --attribute message.type=NORMAL", {"topic attributes": {"message.type": "NORMAL"}}),
        ("create --group billing --retries 9", {"group retryMaxTimes": 9}),
    ],
)
def test_what_create_recommends_changes_one_thing(cluster: Cluster, line: str, changed: Values) -> None:
    with_admin(cluster, prepare)
    refused = call(*line.split(), "-n", cluster.namesrv)
    (recommended,) = commands_in(one_line(refused.stderr))
    before = with_admin(cluster, values)
    done = call(*recommended.split(), "-n", cluster.namesrv)
    assert done.returncode == 0, done.stderr
    after = with_admin(cluster, values)
    wanted = {f"{name} {field}": value for name in ("broker-a", "broker-b") for field, value in changed.items()}
    assert {name: value for name, value in after.items() if before.get(name) != value} == wanted


def test_a_topic_of_some_brokers_gets_its_own_values_on_the_others(cluster: Cluster) -> None:
    async def look(admin: Admin) -> tuple[list[str], Any]:
        await admin.create_topic(
            "refunds", 5, write_queues=3, order=True, attributes={"message.type": "FIFO"}, broker_name="broker-b"
        )
        await admin.create_group(GROUP)
        finding = next(
            one
            for one in explain(await FactsReader(admin, GROUP, "refunds").read()).findings
            if one.kind == "ON_SOME_BROKERS"
        )
        return commands_in(finding.way_out), await admin.topic_config("refunds", "broker-b")

    (recommended,), wanted = with_admin(cluster, look)
    assert call(*recommended.split(), "-n", cluster.namesrv).returncode == 0
    assert with_admin(cluster, lambda admin: admin.topic_config("refunds", "broker-a")) == wanted
    assert with_admin(cluster, lambda admin: admin.topic_config("refunds", "broker-b")) == wanted


def test_a_topic_that_is_missed_is_created(cluster: Cluster) -> None:
    async def look(admin: Admin) -> list[str]:
        await admin.create_group(GROUP)
        (finding,) = (
            one for one in explain(await FactsReader(admin, GROUP, "audit").read()).findings if one.kind == "NO_TOPIC"
        )
        return commands_in(finding.way_out)

    (recommended,) = with_admin(cluster, look)
    assert call(*recommended.split(), "-n", cluster.namesrv).returncode == 0
    assert with_admin(cluster, lambda admin: admin.topic_config("audit", "broker-a")).read_queue_nums == 8


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("change", "name a topic"),
        ("change wide --group billing --perm 4", "name a topic"),
        ("change wide", "say what to change: --queues, --read-queues, --order, --perm, --attribute"),
        ("change wide --no-consume", "--consume belongs to a group, and you named wide"),
        ("change --group billing --read-queues 4", "--read-queues belongs to a topic, and you named billing"),
        ("change wide --perm 5", "5"),
    ],
)
def test_change_refuses_what_it_cant_do_in_one_line(cluster: Cluster, line: str, words: str) -> None:
    shown = call(*line.split(), "-n", cluster.namesrv)
    assert shown.returncode == 2
    assert words in one_line(shown.stderr)


def test_change_shows_what_is_there_now(cluster: Cluster) -> None:
    with_admin(cluster, prepare)
    shown = call("change", "--group", GROUP, "--consume", "--retries", "2", "-n", cluster.namesrv).stdout
    assert shown.startswith("changed group billing: retries 2, consume True, broadcast False, orderly True, ")
    shown = call("change", TOPIC, "--no-order", "-n", cluster.namesrv).stdout
    assert shown.startswith("changed topic wide: queues 16, writeQueues 12, perm 2, order False, ")
