"""A broker or nameserver that doesn't respond hides none of the others: mqadmin reports it in one line."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from staticfire.cluster.cluster import Cluster
from staticfire.runtime.live import live_machine
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.pool import ConnectionPool
from tests.cli.commands import TIMEOUT_S, call, command, environment, one_line
from tests.nameserver.asking import registration

pytestmark = pytest.mark.row("E2")

SILENT = "127.0.0.1:1"
"""An address where no server listens. Its broker is the first by name, and remains registered."""
SILENT_BROKER = "broker-0"
SECOND = "127.0.0.1:2"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster, closing(LoopThread("the silent broker")) as thread:
        cluster.create_topic("orders", queues=1)
        with Producer("shop", cluster.namesrv) as producer:
            for name in cluster.addresses:
                producer.send(Message("orders", b"1 book"), queue=MessageQueue("orders", name, 0))

        async def register() -> ConnectionPool:
            pool = ConnectionPool(live_machine())
            request = registration(SILENT_BROKER, SILENT, 0, "orders", "TBW102", "%RETRY%billing", "solo")
            assert (await pool.ask(cluster.namesrv, request)).code == 0
            return pool

        thread.call(_consume_all(cluster))
        pool = thread.call(register())
        yield cluster
        thread.call(pool.close())


async def _consume_all(cluster: Cluster) -> None:
    """Let the group billing commit an offset at each broker."""
    consumer, done, left = PushConsumer("billing", cluster.namesrv), asyncio.Event(), {*cluster.addresses}
    consumer.subscribe("orders")

    @consumer.listener
    async def consume(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        left.difference_update(message.broker_name for message in messages)
        if not left:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with consumer:
        await done.wait()


def failed(*arguments: str, namesrv: str, silent: str = SILENT) -> list[str]:
    """Return the lines of a command that reports a silent server, once."""
    done: subprocess.CompletedProcess[str] = call("mqadmin", *arguments, NAMESRV_ADDR=namesrv)
    assert done.returncode == 1
    assert silent in one_line(done.stderr)
    return done.stdout.splitlines()


def test_all_brokers_are_listed_also_the_silent_one(cluster: Cluster) -> None:
    rows = [line.split() for line in failed("clusterList", namesrv=cluster.namesrv)[1:]]
    assert [row[1] for row in rows] == [SILENT_BROKER, "broker-a", "broker-b"]
    assert rows[0][3:6] == [SILENT, "0.00(,ms)", "0.00(,ms|,ms)"]
    assert [row[4] for row in rows[1:]] == ["V5_3_3", "V5_3_3"]
    totals = [line.split()[1] for line in failed("clusterList", "-m", namesrv=cluster.namesrv)[1:]]
    assert totals == [SILENT_BROKER, "broker-a", "broker-b"]


def test_a_repeated_list_continues_with_a_silent_broker(cluster: Cluster) -> None:
    with subprocess.Popen(
        command("mqadmin", "clusterList", "-i", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(NAMESRV_ADDR=cluster.namesrv),
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(8)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert [line.split()[1] for line in lines] == ["Name", SILENT_BROKER, "broker-a", "broker-b"] * 2


def test_a_trace_that_a_silent_broker_may_have_is_not_called_missing_alone(cluster: Cluster) -> None:
    done = call("mqadmin", "queryMsgTraceById", "-i", "id", "-t", "orders", NAMESRV_ADDR=cluster.namesrv)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert "the search is incomplete: orders on broker-0: " in first
    assert "no client has traced a message id" in second


@pytest.mark.parametrize(
    "arguments",
    [
        ["brokerStatus", "-c", "DefaultCluster"],
        ["getBrokerConfig", "-c", "DefaultCluster"],
        ["haStatus", "-c", "DefaultCluster"],
        ["updateBrokerConfig", "-c", "DefaultCluster", "-k", "maxMessageSize", "-v", "4000000"],
        ["updateSubGroup", "-c", "DefaultCluster", "-g", "stock"],
        ["setConsumeMode", "-c", "DefaultCluster", "-t", "orders", "-g", "stock", "-m", "POP"],
        ["deleteSubGroup", "-c", "DefaultCluster", "-g", "stock"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_other_brokers_have_their_turn(cluster: Cluster, arguments: list[str]) -> None:
    reported = "\n".join(failed(*arguments, namesrv=cluster.namesrv))
    for address in cluster.addresses.values():
        assert address in reported


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topicStatus", "-t", "orders"], ["broker-a", "broker-b"]),
        (["topicList", "-c"], ["orders", "solo"]),
        (["getConsumerConfig", "-g", "billing"], [":broker-a=", ":broker-b="]),
        (["consumerProgress", "-g", "billing"], ["broker-a", "broker-b", "Consume Diff Total: "]),
        (["consumerProgress"], ["billing"]),
        (["statsAll"], ["orders", "billing"]),
        (["printMsg", "-t", "orders"], ["BODY: 1 book"]),
        (["consumeMessage", "-t", "orders"], ["BODY: 1 book"]),
    ],
    ids=lambda value: value[0],
)
def test_what_the_other_brokers_know_is_shown(cluster: Cluster, arguments: list[str], words: list[str]) -> None:
    reported = "\n".join(failed(*arguments, namesrv=cluster.namesrv))
    assert [word for word in words if word not in reported] == []


def test_the_members_that_the_other_brokers_know_are_shown(cluster: Cluster) -> None:
    async def work() -> None:
        consumer, heard = PushConsumer("billing", cluster.namesrv), asyncio.Event()
        consumer.subscribe("orders")

        @consumer.listener
        async def consume(_: tuple[ReceivedMessage, ...], __: ConsumeContext) -> ConsumeStatus:
            heard.set()
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer, Producer("shop", client=consumer.client) as producer:
            await producer.send(Message("orders", b"1 book"))
            await heard.wait()  # It has queues then. It may have asked the silent broker for the members before.
            for arguments in (
                ["consumerConnection", "-g", "billing"],
                ["producerConnection", "-g", "shop", "-t", "orders"],
                ["consumerProgress", "-g", "billing", "-s", "true"],
            ):
                reported = await asyncio.to_thread(failed, *arguments, namesrv=cluster.namesrv)
                assert any(consumer.client.client_id.split("@")[0] in line for line in reported)
            own = ["consumerStatus", "-g", "billing", "-i", consumer.client.client_id]
            done = await asyncio.to_thread(call, "mqadmin", *own, NAMESRV_ADDR=cluster.namesrv)
            assert (done.returncode, done.stderr) == (0, "")
            assert "#Consumer Properties#" in done.stdout

    asyncio.run(work())


def test_a_group_is_not_called_offline_while_a_broker_is_silent(cluster: Cluster) -> None:
    assert failed("consumerConnection", "-g", "Nobody", namesrv=cluster.namesrv) == []
    assert failed("producerConnection", "-g", "Nobody", "-t", "orders", namesrv=cluster.namesrv) == []
    assert failed("getConsumerConfig", "-g", "Nobody", namesrv=cluster.namesrv) == []


def test_a_failed_change_lists_where_it_was_made(cluster: Cluster) -> None:
    arguments = ["deleteTopic", "-c", "DefaultCluster", "-t", "unknown"]
    done = call("mqadmin", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert SILENT in first
    assert second == "staticfire mqadmin: topic unknown is deleted at broker-a, broker-b"


def test_offsets_are_changed_at_the_other_brokers(cluster: Cluster) -> None:
    place = ["-g", "billing", "-t", "orders"]
    for arguments in (["skipAccumulatedMessage"], ["resetOffsetByTime", "-s", "now"]):
        lines = failed(*arguments, *place, namesrv=cluster.namesrv)
        assert [line.split()[:2] for line in lines[-2:]] == [["broker-a", "0"], ["broker-b", "0"]]
    failed("updateSubGroup", "-c", "DefaultCluster", "-g", "copy", namesrv=cluster.namesrv)
    place = ["-s", "billing", "-d", "copy", "-t", "orders"]
    done = call("mqadmin", "cloneGroupOffset", *place, NAMESRV_ADDR=cluster.namesrv)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert SILENT in first
    copied = "offsets of group billing in topic orders are copied to group copy at broker-a, broker-b"
    assert second == f"staticfire mqadmin: {copied}"


def test_an_order_conf_is_stored_at_the_other_nameservers(cluster: Cluster) -> None:
    namesrv = f"{SILENT};{cluster.namesrv}"
    for arguments in (["-m", "put", "-v", "broker-a:1"], ["-m", "delete"]):
        done = call("mqadmin", "updateOrderConf", "-t", "orders", *arguments, NAMESRV_ADDR=namesrv)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[1].endswith(f"d at {cluster.namesrv}")


def test_all_nameservers_lose_and_regain_the_write_permission(cluster: Cluster) -> None:
    namesrv = f"{SILENT};{cluster.namesrv}"
    for name, word in (("wipeWritePerm", "wipe"), ("addWritePerm", "add")):
        lines = failed(name, "-b", "broker-a", namesrv=namesrv)
        place = f"{word} write perm of broker[broker-a] in name server"
        assert lines[0] == f"{place}[{SILENT}] Failed"
        assert lines[1].startswith(f"{place}[{cluster.namesrv}] OK, ")


def test_a_nameservers_settings_are_shown_after_those_of_a_silent_one(cluster: Cluster) -> None:
    lines = failed("getNamesrvConfig", namesrv=f"{SILENT};{cluster.namesrv}")
    assert lines[0] == f"============{cluster.namesrv}============"


def test_values_are_stored_and_removed_at_the_other_nameservers(cluster: Cluster) -> None:
    async def stored() -> str | None:
        async with Admin(cluster.namesrv) as admin:
            return await admin.get_kv("n", "k")

    place = ["-s", "n", "-k", "k"]
    for arguments, words, value in (
        (["updateKvConfig", *place, "-v", "v"], "the value is stored at", "v"),
        (["deleteKvConfig", *place], "the value is removed at", None),
    ):
        done = call("mqadmin", *arguments, NAMESRV_ADDR=f"{SILENT};{cluster.namesrv}")
        assert (done.returncode, done.stdout) == (1, "")
        first, second = done.stderr.splitlines()
        assert SILENT in first
        assert second == f"staticfire mqadmin: {words} {cluster.namesrv}"
        assert asyncio.run(stored()) == value


def test_each_silent_nameserver_is_reported(cluster: Cluster) -> None:
    namesrv = f"{SILENT};{cluster.namesrv};{SECOND}"
    done = call("mqadmin", "updateKvConfig", "-s", "n", "-k", "k", "-v", "v", NAMESRV_ADDR=namesrv)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 3
