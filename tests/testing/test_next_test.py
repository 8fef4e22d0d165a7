"""What a test leaves behind, and the next test with the same cluster doesn't find: in a pytest of its own."""

from pathlib import Path

import pytest

from tests.testing.test_plugin import run

pytestmark = pytest.mark.row("E3")


@pytest.mark.slow
def test_killed_and_frozen_processes_run_again_without_their_rules(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
pytestmark = pytest.mark.rocketmq(replicas=1, grpc=True, isolation="process")
ALL = {"nameserver", "broker-a", "broker-a-1", "proxy"}

def test_first(rocketmq):
    cluster = rocketmq.cluster
    cluster.broker("broker-a").replica(1).kill()
    rocketmq.faults.add(broker="broker-a", kill=True)
    cluster.kill("proxy")
    rocketmq.faults.add(broker="nameserver", freeze="1h")
    assert set(cluster.pids) == {"nameserver"}

def test_second(rocketmq):
    cluster = rocketmq.cluster
    assert set(cluster.pids) == ALL
    assert rocketmq.faults.all() == []
    assert [one["answers"] for one in cluster.replication()] == [True, True]
    orders = rocketmq.create_topic("orders")
    with rocketmq.faults.add(broker="broker-a-1", kill=True):
        assert set(cluster.pids) == ALL - {"broker-a-1"}
    assert set(cluster.pids) == ALL

def test_third_with_a_failover(rocketmq):
    rocketmq.send(rocketmq.create_topic("orders"), "1")
    cluster = rocketmq.cluster
    rocketmq.wait_for(lambda: len({one["endPosition"] for one in cluster.replication()}) == 1, what="the copy")
    cluster.failover("broker-a")
    cluster.broker("broker-a").replica(1).kill()
    cluster.broker("broker-a").kill()

def test_fourth_with_the_new_master(rocketmq):
    assert set(rocketmq.cluster.pids) == ALL
    assert rocketmq.messages(rocketmq.create_topic("orders")) == []
""",
    )
    result.assert_outcomes(passed=4)


@pytest.mark.slow
def test_lifetime_of_a_rule_that_a_test_has_left_thaws_nothing_in_the_next_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from pathlib import Path
from staticfire.runtime.live import live_machine

pytestmark = pytest.mark.rocketmq(isolation="process")
ends = []

def test_first(rocketmq):
    rocketmq.faults.add(broker="broker-a", freeze="500ms")
    ends.append(live_machine().clock.uptime_ms() + 500)

def test_second(rocketmq):
    broker = rocketmq.cluster.broker("broker-a")
    broker.freeze()
    rocketmq.wait_for(lambda: live_machine().clock.uptime_ms() > ends[0] + 50, what="the end of that lifetime")
    assert "\\nState:\\tT" in Path(f"/proc/{broker.pid}/status").read_text()
""",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_brokers_are_found_after_a_test_that_has_killed_the_nameserver(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from threading import Event

pytestmark = pytest.mark.rocketmq(replicas=1, isolation="process")

@pytest.mark.parametrize("time", [1, 2])
def test_kills(rocketmq, time):
    orders = rocketmq.create_topic("orders")
    rocketmq.send(orders, "1")
    assert len(rocketmq.messages(orders)) == 1
    rocketmq.cluster.nameserver.kill()
    Event().wait(1)  # Now brokers try again only every second.
""",
    )
    result.assert_outcomes(passed=2)


def test_journal_of_a_test_begins_with_it(pytester: pytest.Pytester) -> None:
    """The cluster's own journal has everything since its start."""
    result = run(
        pytester,
        """
def consumed(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    rocketmq.send(orders, "1")
    with consumer(rocketmq, "billing", done):
        rocketmq.wait_consumed(orders, group="billing")

@pytest.mark.parametrize("time", [1, 2])
def test_consumes(rocketmq, time):
    assert rocketmq.journal("delivered") == rocketmq.requests("SEND_MESSAGE_V2") == []
    consumed(rocketmq)
    assert len(rocketmq.journal("delivered", group="billing")) == 1
    assert len(rocketmq.cluster.journal("delivered", group="billing")) == time

async def test_awaits(rocketmq):
    assert await rocketmq.aio.journal("delivered") == []
""",
    )
    result.assert_outcomes(passed=3)


def test_journal_of_a_test_is_the_same_if_the_wall_clock_is_set_meanwhile(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import time

@pytest.mark.parametrize("by_s", [0, -3600, 3600])
def test_sends(rocketmq, monkeypatch, by_s):
    real_ns = time.time_ns
    rocketmq.send(rocketmq.create_topic("orders"), "1")
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + by_s * 1_000_000_000)
    rocketmq.send("orders", "2")
    assert len(rocketmq.requests("SEND_MANY")) == 2
""",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_deaths_of_a_test_are_not_those_of_the_next_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import os
import signal

pytestmark = pytest.mark.rocketmq(isolation="process")

def test_first(rocketmq):
    os.kill(rocketmq.cluster.broker("broker-a").pid, signal.SIGKILL)
    rocketmq.wait_for(lambda: rocketmq.cluster.deaths, what="the death")

def test_second(rocketmq):
    assert rocketmq.cluster.deaths == []
    assert "SIGKILL" not in rocketmq.explain()
    os.kill(rocketmq.cluster.broker("broker-a").pid, signal.SIGKILL)  # Noticed at the beginning of the next test.

def test_third(rocketmq):
    assert rocketmq.cluster.deaths == []
""",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_cluster_that_a_test_has_broken_is_replaced_for_the_next_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import socket

pytestmark = pytest.mark.rocketmq(isolation="process")
taken = []

def test_takes_the_port_of_the_broker(rocketmq):
    broker = rocketmq.cluster.broker("broker-a")
    broker.kill()
    host, port = broker.address.split(":")
    taken.append(socket.create_server((host, int(port))))

@pytest.mark.parametrize("time", [1, 2])
def test_next(rocketmq, time):
    rocketmq.send(rocketmq.create_topic("orders"), "1")
    if time == 2:
        taken.pop().close()
""",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_cluster_that_replaces_another_with_the_same_folder_is_empty(pytester: pytest.Pytester, tmp_path: Path) -> None:
    result = run(
        pytester,
        f"""
import socket

pytestmark = pytest.mark.rocketmq(isolation="process", directory="{tmp_path}")
taken = []

def test_takes_the_port_of_the_broker(rocketmq):
    rocketmq.send(rocketmq.create_topic("orders"), "1")
    broker = rocketmq.cluster.broker("broker-a")
    broker.kill()
    host, port = broker.address.split(":")
    taken.append(socket.create_server((host, int(port))))

def test_next(rocketmq):
    assert rocketmq.messages(rocketmq.create_topic("orders")) == []
    taken.pop().close()
""",
    )
    result.assert_outcomes(passed=2)


def test_broker_in_a_thread_that_has_crashed_is_replaced_for_the_next_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
async def fail():
    raise RuntimeError("broken")

def test_first(rocketmq):
    thread, running = rocketmq.cluster._thread_and_object()
    async def crash():
        running.cluster._brokers[0].spawn(fail(), "loop")
    thread.call(crash())
    rocketmq.wait_for(lambda: rocketmq.cluster.deaths, what="the crash")
    assert "broker-a has crashed: RuntimeError: broken" in rocketmq.explain()

def test_second(rocketmq):
    assert rocketmq.cluster.deaths == []
    rocketmq.send(rocketmq.create_topic("orders"), "1")
""",
    )
    result.assert_outcomes(passed=2)


def test_users_and_policies_of_a_test_are_not_those_of_the_next_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from staticfire import ClientSettings, NoPermission, Producer, ProducerSettings

with_users = pytest.mark.rocketmq(users={"admin": "secret12", "shop": "s3cret12"})

def send(rocketmq, user, secret):
    settings = ProducerSettings(client=ClientSettings(access_key=user, secret_key=secret))
    with Producer("shop", rocketmq.namesrv, settings) as producer:
        producer.send(Message(rocketmq.create_topic("orders"), b"1 book"))

@with_users
def test_first(rocketmq):
    send(rocketmq, "shop", "s3cret12")
    rocketmq.cluster.users.add("guest", "guest123")
    rocketmq.cluster.users.allow("guest", "Topic:orders", "Sub")
    rocketmq.cluster.users.change("shop", secret="another1")
    with pytest.raises(NoPermission):
        send(rocketmq, "guest", "guest123")

@with_users
def test_second(rocketmq):
    send(rocketmq, "shop", "s3cret12")
    assert [(one.name, one.policies) for one in rocketmq.cluster.users.all()] == [("admin", []), ("shop", [])]

def test_third_without_users(rocketmq):
    rocketmq.cluster.users.add("admin", "secret12", is_super=True)
    rocketmq.cluster.users.add("shop", "s3cret12")

def test_fourth_without_users(rocketmq):
    with Producer("shop", rocketmq.namesrv) as producer:
        producer.send(Message(rocketmq.create_topic("orders"), b"1 book"))
    assert rocketmq.cluster.users.all() == []
""",
    )
    result.assert_outcomes(passed=4)


def test_hooks_of_a_test_are_not_called_in_the_next_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
called = []

def bury(rocketmq, body):
    rocketmq.create_topic("orders")
    with consumer(rocketmq, "billing", later, max_reconsume_times=0):
        rocketmq.send("orders", body)
        rocketmq.wait_dead("billing")

def test_first(rocketmq):
    rocketmq.cluster.on_sent_back(lambda sent_back: called.append("sent back in the first test"))
    rocketmq.cluster.dlq("billing").on_death(lambda letter: called.append("died in the first test"), from_start=True)
    bury(rocketmq, "1")
    rocketmq.wait_for(lambda: len(called) == 2)
    called.clear()

def test_second(rocketmq):
    rocketmq.cluster.on_sent_back(lambda sent_back: called.append("sent back"))
    rocketmq.cluster.dlq("billing").on_death(lambda letter: called.append("died"), from_start=True)
    bury(rocketmq, "2")
    rocketmq.wait_for(lambda: len(called) >= 2)
    assert sorted(called) == ["died", "sent back"]
""",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_run_under_faults_that_fails_leaves_no_client_and_no_connection(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import json
import urllib.request
from contextlib import asynccontextmanager
from staticfire.chaos import connections as chaos_connections
from staticfire.chaos.injection import FaultInjection
from staticfire.protocol.errors import NetworkError

closed = []

def producers(rocketmq):
    with urllib.request.urlopen(rocketmq.cluster.control + "/producers") as response:
        return json.load(response)["producers"]

@pytest.mark.rocketmq(chaos="mild", seeds=1, each="orders -> invoices by key")
def test_condition_that_matches_nothing(rocketmq):
    rocketmq.send("orders", "1 book")
    assert len(producers(rocketmq)) == 1

@pytest.fixture
def broken_weather(monkeypatch):
    async def prepare(_):
        raise NetworkError("the broker is away")
    @asynccontextmanager
    async def connections(settings, connect=chaos_connections.connections):
        try:
            async with connect(settings) as pool:
                yield pool
        except NetworkError as error:
            closed.append(str(error))
            raise
    monkeypatch.setattr(FaultInjection, "prepare", prepare)
    monkeypatch.setattr(chaos_connections, "connections", connections)

@pytest.mark.rocketmq(chaos="mild", seeds=1)
def test_weather_that_does_not_begin(broken_weather, rocketmq): ...

def test_next(rocketmq):
    assert producers(rocketmq) == []
    assert closed == ["the broker is away"]
""",
    )
    result.assert_outcomes(passed=2, errors=2, skipped=2)
    result.stdout.fnmatch_lines(["*invoices by key' matches nothing*", "*the broker is away*", "topics: none"])
