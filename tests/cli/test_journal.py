"""`staticfire journal`, the control endpoint's /journal and /requests, and `cluster.journal()` of real processes."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from staticfire import (
    BrokerAnswer,
    ClientSettings,
    Cluster,
    ConsumeContext,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    UsageError,
)
from tests.cli.commands import TIMEOUT_S, call, get, one_line

pytestmark = pytest.mark.row("S7")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers, and a consumer that came, consumed one message of each, and left."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=1)
        settings = PushSettings(client=ClientSettings(instance_name="billing-2"))
        consumer = PushConsumer("billing", cluster.namesrv, settings)
        consumer.subscribe("orders", "paid")
        consumed = threading.Semaphore(0)

        @consumer.listener
        def listen(_: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
            consumed.release()
            return ConsumeStatus.CONSUME_SUCCESS

        with Producer("shop", cluster.namesrv) as producer, consumer:
            for queue in producer.queues("orders"):
                producer.send(Message("orders", b"x", tags="paid"), queue=queue)
                assert consumed.acquire(timeout=TIMEOUT_S)
        yield cluster


def shown(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    done = call("journal", "-n", cluster.namesrv, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_cluster_keeps_a_journal_of_its_brokers(cluster: Cluster) -> None:
    journal = cluster.journal("joined", "left", group="billing")
    assert {(record.broker, record.kind) for record in journal} == {
        (broker, kind) for broker in ("broker-a", "broker-b") for kind in ("joined", "left")
    }
    assert all(record.client.endswith("@billing-2") for record in journal)
    assert [record.broker for record in cluster.journal("delivered", broker="broker-b")] == ["broker-b"]


def test_assertions_on_the_requests_of_a_client(cluster: Cluster) -> None:
    pulls = cluster.requests("PULL_MESSAGE", client="billing-2", topic="orders")
    assert {pull.broker for pull in pulls} == {"broker-a", "broker-b"}
    assert all(pull.fields["suspendTimeoutMillis"] == 15_000 for pull in pulls)
    assert cluster.requests(code="PULL_MESSAGE", client="billing-1") == []
    with pytest.raises(UsageError, match="is not a request code"):
        cluster.requests(code="PUSH_MESSAGE")


async def test_the_same_awaited(cluster: Cluster) -> None:
    assert len(await cluster.aio.journal("left")) == 2
    assert {one.code for one in await cluster.aio.requests(code="UNREGISTER_CLIENT")} == {"UNREGISTER_CLIENT"}


def test_the_command_prints_lines_for_people_and_json_for_programs(cluster: Cluster) -> None:
    done = call("journal", "-n", cluster.namesrv, "delivered")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.split()[2:4] in (["broker-a", "delivered"], ["broker-b", "delivered"])
    assert "orders/0 @0" in second
    assert "count=1" in second
    records = shown(cluster, "--group", "billing", "joined")
    assert [record["details"]["subscriptions"]["orders"] for record in records] == ["paid", "paid"]
    assert len(shown(cluster, "--max", "3")) == 3


def test_the_command_shows_requests(cluster: Cluster) -> None:
    records = shown(cluster, "--requests", "--code", "PULL_MESSAGE", "--client", "billing-2", "--topic", "orders")
    assert {record["details"]["fields"]["topic"] for record in records} == {"orders"}
    line = call("journal", "-n", cluster.namesrv, "--requests", "--code", "11", "--max", "1").stdout
    assert "PULL_MESSAGE" in one_line(line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dead"], "unknown kind 'dead', did you mean died? the kinds are started, joined"),
        (["--requests", "joined"], "--requests can't be combined with kinds"),
        (["--code", "PULL_MESSAGE"], "--code needs --requests"),
        (["--requests", "--code", "PUSH"], "'PUSH' is not a request code; write its name"),
        (["--requests", "--code", "9" * 5_000], "9' is not a request code; write its name"),
        (["--broker", "broker-z"], "no master of broker broker-z"),
    ],
)
def test_what_is_wrong_is_reported(cluster: Cluster, arguments: list[str], words: str) -> None:
    done = call("journal", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert done.returncode in (1, 2)
    assert words in one_line(done.stderr)


def test_the_control_endpoint_shows_both(cluster: Cluster) -> None:
    status, reported = get(f"{cluster.control}/journal?kind=joined,left&group=billing&broker=broker-a")
    assert (status, reported["dropped"]) == (200, 0)
    assert [record["kind"] for record in reported["records"]] == ["joined", "left"]
    status, reported = get(f"{cluster.control}/requests?code=PULL_MESSAGE&client=billing-2&max=1")
    assert (status, [record["details"]["code"] for record in reported["records"]]) == (200, ["PULL_MESSAGE"])


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("journal?kind=dead", "'dead' is not a kind of event"),
        ("journal?code=11", "'code' is unknown here; there are broker, client, group, kind"),
        ("requests?code=PUSH", "'PUSH' is not a request code"),
        ("requests?queue=one", "queue=one: a whole number is needed, 0 to 2147483647"),
        ("journal?max=0", "max=0: a whole number is needed, 1 or more"),
        ("journal?broker=broker-z", "no master of broker broker-z"),
    ],
)
def test_the_control_endpoint_reports_what_is_wrong(cluster: Cluster, path: str, words: str) -> None:
    status, reported = get(f"{cluster.control}/{path}")
    assert status == 400
    assert words in reported["error"]


def test_it_can_be_turned_off() -> None:
    with Cluster(settings={"journalEnable": False, "recordRequests": False}) as cluster:
        with pytest.raises(BrokerAnswer, match="start it with journalEnable=true"):
            cluster.journal()
        with pytest.raises(BrokerAnswer, match="recordRequests=true"):
            cluster.requests()
        assert get(f"{cluster.control}/journal")[0] == 404
        done = call("journal", "-n", cluster.namesrv)
        assert (done.returncode, "this broker keeps no journal" in one_line(done.stderr)) == (1, True)
