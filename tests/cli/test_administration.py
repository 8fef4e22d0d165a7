"""Topics and groups are created, changed and deleted over HTTP and with `staticfire create`; messages are sent."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from staticfire import Admin, Cluster, Message, Producer
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from tests.cli.commands import call, get, one_line
from tests.cli.test_control_routes import posted
from tests.cli.ways_out import commands_in


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _empty(cluster: Cluster) -> None:
    cluster.reset()


def ask(cluster: Cluster, method: str, path: str, **body: Any) -> tuple[int, Any]:
    return posted(f"{cluster.control}/{path}", json.dumps(body).encode() if body else b"", method)


def topics(cluster: Cluster) -> dict[str, int]:
    """Return the number of queues of each topic, over all brokers."""
    return {one["topic"]: one["queues"] for one in get(f"{cluster.control}/topics")[1]["topics"]}


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def test_a_topic_is_created_changed_and_deleted(cluster: Cluster) -> None:
    status, made = ask(cluster, "POST", "topics", topic="orders", queues=4, attributes={"message.type": "FIFO"})
    assert (status, made["created"], made["queues"], made["perm"]) == (200, True, 4, 6)
    assert topics(cluster) == {"orders": 8}
    status, again = ask(cluster, "POST", "topics", topic="orders", queues=4)
    assert (status, again["created"]) == (200, False)
    status, refused = ask(cluster, "POST", "topics", topic="orders", queues=5)
    assert (status, "topic orders exists on broker-a with other values (queues 4" in refused["error"]) == (409, True)
    assert ask(cluster, "PATCH", "topics/orders", perm=4)[0] == 200
    status, changed = ask(cluster, "PATCH", "topics/orders", queues=6)
    assert changed == {
        "topic": "orders", "queues": 6, "writeQueues": 6, "perm": 4, "order": False,
        "attributes": {"message.type": "FIFO"},
    }  # fmt: skip
    assert ask(cluster, "DELETE", "topics/orders") == (200, {"deleted": "orders"})
    assert topics(cluster) == {}
    for method, body in (("DELETE", {}), ("PATCH", {"perm": 6})):
        status, missing = ask(cluster, method, "topics/orders", **body)
        assert (status, missing) == (404, {"error": "there is no topic orders", "code": "TOPIC_NOT_EXIST"})


def test_a_topic_on_one_broker_only_gets_the_others(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 4, broker_name="broker-b")
    assert ask(cluster, "POST", "topics", topic="orders", queues=4)[0] == 200
    assert topics(cluster) == {"orders": 8}


def test_a_topic_on_one_broker_keeps_its_values_there_and_has_them_on_the_others(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 16, perm=4, broker_name="broker-a", attributes={"message.type": "FIFO"})
        made = {
            "topic": "orders", "created": True, "queues": 16, "writeQueues": 16, "perm": 4, "order": False,
            "attributes": {"message.type": "FIFO"},
        }  # fmt: skip
        assert ask(cluster, "POST", "topics", topic="orders") == (200, made)
        for broker in ("broker-a", "broker-b"):
            config = admin.topic_config("orders", broker)
            assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (16, 16, 4)
            assert config.attributes == {"message.type": "FIFO"}
    assert ask(cluster, "POST", "topics", topic="orders") == (200, {**made, "created": False})


def test_a_group_on_one_broker_keeps_its_values_there_and_has_them_on_the_others(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin:
        config = SubscriptionGroupConfig(
            "billing", consume_enable=False, retry_max_times=3, attributes={"stableTimeMs": "30000"}
        )
        admin.create_group(config, broker_name="broker-b")
        status, made = ask(cluster, "POST", "groups", group="billing")
        assert (status, made["created"], made["retries"], made["consume"]) == (200, True, 3, False)
        for broker in ("broker-a", "broker-b"):
            found = admin.group_config("billing", broker)
            assert (found.retry_max_times, found.consume_enable) == (3, False)
            assert found.attributes == {"stableTimeMs": "30000"}
    assert ask(cluster, "POST", "groups", group="billing") == (200, {**made, "created": False})


def test_an_ordered_topic_has_the_number_of_queues_of_each_broker(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin:
        for broker, queues in (("broker-a", 4), ("broker-b", 8)):
            admin.create_topic("orders", queues, order=True, broker_name=broker)
        admin.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-b:8")
        assert ask(cluster, "PATCH", "topics/orders", perm=4)[0] == 200
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-b:8", "its queues don't change"
        assert ask(cluster, "PATCH", "topics/orders", order=True)[0] == 200
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-a:4;broker-b:8"
        assert ask(cluster, "PATCH", "topics/orders", queues=6)[0] == 200
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-a:6;broker-b:6"
        assert ask(cluster, "PATCH", "topics/orders", order=False)[0] == 200
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") is None


def test_an_ordered_topic_has_its_queues_at_the_nameserver(cluster: Cluster) -> None:
    assert ask(cluster, "POST", "topics", topic="orders", queues=2, order=True)[0] == 200
    with Admin(cluster.namesrv) as admin:
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-a:2;broker-b:2"
        assert ask(cluster, "DELETE", "topics/orders")[0] == 200
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") is None


def test_a_group_is_created_changed_and_deleted_with_what_it_has(cluster: Cluster) -> None:
    status, made = ask(cluster, "POST", "groups", group="billing", retries=3)
    assert (status, made["created"], made["retries"]) == (200, True, 3)
    assert ask(cluster, "POST", "groups", group="billing", retries=4)[0] == 409
    status, changed = ask(cluster, "PATCH", "groups/billing", consume=False)
    assert (status, changed["retries"], changed["consume"]) == (200, 3, False)
    with Admin(cluster.namesrv) as admin:
        for topic in ("%RETRY%billing", "%DLQ%billing", "%RETRY%billing_orders", "%RETRY%billing_x", "orders"):
            admin.create_topic(topic, 1)
        admin.create_group("billing_x")  # One of these is the retry topic of this group.
        assert ask(cluster, "DELETE", "groups/billing") == (200, {"deleted": "billing"})
        assert admin.groups().count("billing") == 0
        assert {name for name in admin.topics() if "billing" in name} == {"%RETRY%billing_x"}
    assert ask(cluster, "DELETE", "groups/billing")[0] == 404
    assert ask(cluster, "PATCH", "groups/billing", retries=1)[0] == 404


def test_messages_are_sent_with_all_that_a_producer_can_say(cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=4)
    status, sent = ask(
        cluster, "POST", "topics/orders/messages", body="9.99 €", tags="paid", keys=["order-42"],
        properties={"shop": "north"},
    )  # fmt: skip
    assert (status, sent["status"], sent["topic"]) == (200, "SEND_OK", "orders")
    status, found = get(f"{cluster.control}/messages/order-42")
    (shown,) = found["messages"]
    assert (shown["body"], shown["tags"], shown["properties"]["shop"]) == ("9.99 €", "paid", "north")
    assert shown["messageId"] == sent["messageId"]
    same = [ask(cluster, "POST", "topics/orders/messages", body="x", orderKey="customer-7")[1] for _ in range(4)]
    assert len({(one["brokerName"], one["queueId"]) for one in same}) == 1
    raw = base64.b64encode(b"\x00\xff").decode()
    assert ask(cluster, "POST", "topics/orders/messages", bodyBase64=raw)[0] == 200


@pytest.mark.parametrize("delay", [{"delayLevel": 5}, {"delay": "1m"}, {"deliverAt": "?"}])
def test_a_delayed_message_is_delivered_when_its_time_has_come(cluster: Cluster, delay: dict[str, Any]) -> None:
    cluster.create_topic("orders", queues=1)
    cluster.clock.freeze()
    if "deliverAt" in delay:
        delay = {"deliverAt": str(cluster.clock.now().message_ms + 60_000)}
    assert ask(cluster, "POST", "topics/orders/messages", body="later", **delay)[0] == 200
    assert get(f"{cluster.control}/peek/orders")[1]["messages"] == []
    cluster.clock.advance(minutes=1)
    assert [one["body"] for one in get(f"{cluster.control}/peek/orders")[1]["messages"]] == ["later"]


def test_a_topic_that_brokers_dont_create_is_not_found() -> None:
    with Cluster(settings={"autoCreateTopicEnable": False}) as cluster:
        status, refused = ask(cluster, "POST", "topics/orders/messages", body="x")
    assert (status, refused["code"]) == (404, "TOPIC_NOT_EXIST")


REFUSALS = [
    ("POST", "topics", {}, 400, "the body can't be used"),
    ("POST", "topics", {"topic": "orders", "queue": 4}, 400, "did you mean queues?"),
    ("POST", "topics", {"topic": "orders", "queues": 0}, 400, "Expected `int` >= 1 - at `$.queues`"),
    ("POST", "topics", {"topic": "orders", "perm": 7}, 400, "Invalid enum value 7 - at `$.perm`"),
    ("POST", "topics", {"topic": "my orders"}, 400, "'my orders': The specified topic contains illegal characters"),
    ("POST", "topics", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 400, "system topic"),
    ("POST", "topics", {"topic": "orders", "attributes": {"message.type": "FIFA"}}, 400, "value is not in set"),
    ("PATCH", "topics/ordrs", {"perm": 4}, 404, "there is no topic ordrs"),
    ("DELETE", "topics/RMQ_SYS_TRANS_HALF_TOPIC", {}, 404, "there is no topic"),
    ("POST", "groups", {"group": "a b"}, 400, "contains characters other than"),
    ("POST", "groups", {"group": "billing", "retries": "3"}, 400, "Expected `int | null`, got `str` - at `$.retries`"),
    ("DELETE", "groups/CID_RMQ_SYS_TRANS", {}, 404, "no broker knows a group"),
    ("POST", "topics/orders/messages", {"tags": "paid"}, 400, "a message has a body or a bodyBase64"),
    ("POST", "topics/orders/messages", {"body": "x", "delay": "soon"}, 400, "'soon' is not a duration"),
    ("POST", "topics/orders/messages", {"body": "x", "delay": "1s", "delayLevel": 1}, 400, "use only one of"),
    ("POST", "topics/orders/messages", {"body": "x", "tag": "paid"}, 400, "did you mean tags?"),
    ("POST", "topics/my orders/messages", {"body": "x"}, 400, "illegal characters"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "words"), REFUSALS)
def test_what_cant_be_done_is_refused_in_one_line(
    cluster: Cluster, method: str, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    found, refused = ask(cluster, method, path.replace(" ", "%20"), **body)
    assert (found, words in refused["error"]) == (status, True), refused
    assert "\n" not in refused["error"]


def test_the_description_has_the_new_routes(cluster: Cluster) -> None:
    paths = get(f"{cluster.control}/openapi.json")[1]["paths"]
    body = paths["/topics"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["required"], body["properties"]["queues"]["anyOf"][0]["minimum"]) == (["topic"], 1)
    assert {"get", "post"} == set(paths["/topics"]) == set(paths["/groups"])
    assert {"get", "patch", "delete"} == set(paths["/topics/{topic}"]) == set(paths["/groups/{group}"])
    assert "post" in paths["/topics/{topic}/messages"]


# -- staticfire create -------------------------------------------------------------------------------------------------


def create(cluster: Cluster, *arguments: str) -> Any:
    return call("create", *arguments, "--namesrv", cluster.namesrv)


def test_create_makes_a_topic_and_a_group(cluster: Cluster) -> None:
    made = create(cluster, "orders", "--queues", "4", "--group", "billing", "--retries", "3")
    assert made.stdout.splitlines() == [
        "created topic orders: 4 queues on each broker, perm 6",
        "created group billing: 3 retries",
    ]
    assert topics(cluster) == {"orders": 8}
    again = create(cluster, "orders", "--json")
    assert json.loads(again.stdout) == {
        "topic": "orders", "created": False, "queues": 4, "writeQueues": 4, "perm": 6, "order": False, "attributes": {},
    }  # fmt: skip
    other = create(cluster, "orders", "--queues", "5")
    assert (other.returncode, other.stdout) == (1, "")
    line = one_line(other.stderr)
    assert "topic orders exists on broker-a with other values (queues 4" in line
    (change,) = commands_in(line)
    assert change == "change orders --queues 5"
    assert call(*change.split(), "-n", cluster.namesrv).returncode == 0
    assert topics(cluster) == {"orders": 10}
    other = create(cluster, "--group", "billing", "--retries", "5")
    (change,) = commands_in(one_line(other.stderr))
    assert call(*change.split(), "-n", cluster.namesrv).returncode == 0
    assert json.loads(create(cluster, "--group", "billing", "--json").stdout)["retries"] == 5


def test_create_takes_order_permission_and_attributes(cluster: Cluster) -> None:
    made = create(cluster, "audit", "--order", "--perm", "4", "--attribute", "message.type=FIFO", "--json")
    shown = json.loads(made.stdout)
    assert (shown["order"], shown["perm"], shown["attributes"]) == (True, 4, {"message.type": "FIFO"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a topic, as `staticfire create orders --queues 4`"),
        (("orders", "--queues", "0"), "0 is not a whole number of at least 1"),
        (("orders", "--queues", "9223372036854775808"), "over the limit of 9223372036854775807"),
        (("orders", "--retries", "3"), "--retries belongs to a group"),
        (("--group", "billing", "--queues", "3"), "--queues belongs to a topic"),
        (("--group", "billing", "--attribute", "message.type=FIFO"), "--attribute belongs to a topic"),
        (("my orders",), "The specified topic contains illegal characters"),
        (("orders", "--queue", "4"), "--queues"),
        (("orders", "--perm", "5"), "5"),
        (("orders", "--attribute", "FIFO"), "'FIFO'"),
    ],
)
def test_create_refuses_what_it_cant_do_in_one_line(cluster: Cluster, arguments: tuple[str, ...], words: str) -> None:
    shown = create(cluster, *arguments)
    assert shown.returncode == 2, shown
    assert words in one_line(shown.stderr)


def test_a_typing_error_is_found_among_the_commands() -> None:
    assert "did you mean create" in one_line(call("crate", "orders").stderr)


# -- looking changes nothing -------------------------------------------------------------------------------------------


def test_a_peek_leaves_nothing_in_a_messages_life(cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    with Producer("shop", cluster.namesrv) as producer:
        sent = producer.send(Message("orders", b"x", keys=["order-1"]))
    before = get(f"{cluster.control}/messages/order-1")[1]
    for _ in range(2):
        assert call("peek", "orders", "--namesrv", cluster.namesrv).returncode == 0
        assert get(f"{cluster.control}/peek/orders")[0] == 200
    after = get(f"{cluster.control}/messages/order-1")[1]
    assert before["lives"][sent.message_id]
    assert after == before
    assert get(f"{cluster.control}/groups")[1] == {"groups": []}
