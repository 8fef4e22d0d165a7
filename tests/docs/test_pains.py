"""docs/pains.md: each trouble made, and the command that the page names for it, run as it stands."""

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from subprocess import CompletedProcess

import pytest

from staticfire import Cluster
from staticfire.client import Admin, Message, Producer, PushConsumer
from tests.cli.commands import FREE_PORTS, ROOT, Up, call

SECTION = re.compile(r"^## (\d+)\. .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```\nstaticfire (.*?)\n```$", re.MULTILINE)
PAGE = (ROOT / "docs" / "pains.md").read_text()
PAINS = {int(found[1]): COMMAND.findall(found[0]) for found in SECTION.finditer(PAGE)}


def words_of(pain: int) -> list[str]:
    """Return what the page says to type, without `staticfire`."""
    (line,) = PAINS[pain]
    return shlex.split(line)


def run(cluster: Cluster, pain: int, *more: str, code: int = 0) -> CompletedProcess[str]:
    done = call(*words_of(pain), *more, NAMESRV_ADDR=cluster.namesrv, STATICFIRE_CONTROL=cluster.control)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    shared.reset()
    return shared


class Heard(list[bytes]):
    """The bodies that came, and whether any did."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()


def consumer(cluster: Cluster, expression: str = "*", heard: Heard | None = None) -> PushConsumer:
    one = PushConsumer("billing", cluster.namesrv)
    one.subscribe("orders", expression)

    @one.listener
    def listen(messages: object, context: object) -> None:
        if heard is not None:
            heard.extend(message.body for message in messages)  # type: ignore[attr-defined]
            heard.came.set()

    return one


def send(cluster: Cluster, *messages: Message) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        for message in messages or [Message("orders", b"1")]:
            producer.send(message)


def test_there_are_eleven() -> None:
    assert sorted(PAINS) == list(range(1, 12))


def test_1_it_starts() -> None:
    with Up(*words_of(1), *FREE_PORTS) as up:
        assert up.lines[-1].startswith("ready NAMESRV_ADDR=")


def test_2_different_subscriptions(cluster: Cluster) -> None:
    send(cluster)
    with ExitStack() as members:
        for expression in ("paid", "refunded"):
            members.enter_context(consumer(cluster, expression))
        assert "[paid]" in run(cluster, 2, code=1).stdout


def test_3_all_sixteen_retries(cluster: Cluster) -> None:
    one = PushConsumer("billing", cluster.namesrv)
    one.subscribe("orders")

    @one.listener
    def listen(messages: object, context: object) -> None:
        raise ValueError("no credit")

    send(cluster)
    with one:
        run(cluster, 3)
        assert cluster.dead_letters() == {"billing": 1}


def test_4_addresses(cluster: Cluster) -> None:
    assert "127.0.0.1:" in run(cluster, 4).stdout


def test_5_a_reset_without_members(cluster: Cluster) -> None:
    send(cluster)
    with consumer(cluster):
        pass
    run(cluster, 5)
    heard = Heard()
    with consumer(cluster, heard=heard):
        assert heard.came.wait(20)
    assert heard == [b"1"]


def test_6_a_client_without_a_library(cluster: Cluster) -> None:
    assert "orders broker-" in run(cluster, 6).stdout


def test_7_which_topics_are_where(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", queues=2, broker_name="broker-a")
    assert "orders" in run(cluster, 7).stdout


def test_8_ready_when_it_begins() -> None:
    done = call(*words_of(8))
    assert done.returncode == 0, done.stderr


def test_9_who_holds_what(cluster: Cluster) -> None:
    send(cluster)
    with consumer(cluster):
        assert re.search("orders +broker-", run(cluster, 9).stdout)


def test_10_as_if_it_were_new(cluster: Cluster) -> None:
    send(cluster)
    run(cluster, 10)
    assert call("peek", "orders", NAMESRV_ADDR=cluster.namesrv).stdout == ""


def test_11_a_full_disk(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("orders")
    run(cluster, 11)
    with Producer("shop", cluster.namesrv) as producer:
        stored = {producer.send(Message("orders", b"2")).queue.broker_name for _ in range(8)}
    assert stored == {"broker-b"}, "the producer goes where there is room"
    (rule,) = cluster.faults.all()
    assert rule.words == "the server: disk-full"
    cluster.faults.clear()
