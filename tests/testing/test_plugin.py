"""The pytest plugin as its users have it: in a pytest of its own."""

import pytest

from tests.testing.kept_modules import KEPT

CONSUMER = """
import pytest
from staticfire import ConsumeFromWhere, ConsumeStatus, Message, PushConsumer, PushSettings

def consumer(rocketmq, group, listen, **settings):
    found = PushConsumer(
        group, rocketmq.namesrv, PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **settings)
    )
    found.subscribe("orders")
    found.listener(listen)
    return found

def done(messages, context):
    return ConsumeStatus.CONSUME_SUCCESS

def later(messages, context):
    return ConsumeStatus.RECONSUME_LATER
"""
QUIET = (
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-o",
    "asyncio_mode=auto",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
)


def run(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(CONSUMER + tests)
    return pytester.runpytest_inprocess(*QUIET, *arguments, plugins=[KEPT])


@pytest.mark.row("E3")
def test_each_test_has_an_empty_cluster_that_all_share(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
found = []

def test_first(rocketmq):
    orders = rocketmq.create_topic("orders", queues=2)
    rocketmq.send(orders, "1", b"2", Message(orders, b"3", keys=["k"]))
    with consumer(rocketmq, "billing", done):
        rocketmq.wait_consumed(orders, group="billing")
    assert sorted(one.body for one in rocketmq.messages(orders)) == [b"1", b"2", b"3"]
    rocketmq.clock.freeze()
    found.append(rocketmq.namesrv)

def test_second(rocketmq):
    assert rocketmq.messages("orders") == []
    assert rocketmq.clock.now().mode == "real"
    assert rocketmq.environment["NAMESRV_ADDR"] == rocketmq.namesrv == found[0]

async def test_that_awaits(rocketmq):
    cluster = rocketmq.aio
    orders = await cluster.create_topic("orders")
    await cluster.send(orders, "1")
    async with consumer(rocketmq, "billing", done):
        await cluster.wait_consumed(orders, group="billing")
    async def consumed():
        return (await cluster.group("billing")).lag == 0
    await cluster.wait_for(consumed)
""",
    )
    result.assert_outcomes(passed=3)


def test_dead_letters_after_a_jump_over_all_retries(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_dies(rocketmq):
    orders = rocketmq.create_topic("orders")
    rocketmq.send(orders, "1")
    with consumer(rocketmq, "billing", later, max_reconsume_times=2):
        rocketmq.wait_consumed(orders, group="billing")
        rocketmq.wait_for(lambda: rocketmq.journal("sentBack"), what="the first send-back")
        rocketmq.clock.advance(minutes=2)
        letter, = rocketmq.wait_dead("billing")
    assert letter.message.body == b"1"
""",
    )
    result.assert_outcomes(passed=1)


def test_more_dead_letters_than_a_thousand_are_waited_for(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from staticfire import Producer, ProducerSettings

def test_many_die(rocketmq):
    dead = "%DLQ%billing"
    rocketmq.create_topic(dead, queues=1)
    with Producer("shop", rocketmq.namesrv, ProducerSettings(client=rocketmq.client_settings)) as shop:
        shop.send_many([Message(dead, b"x") for _ in range(1_001)])
    assert len(rocketmq.wait_dead("billing", 1_001)) == 1_001
""",
    )
    result.assert_outcomes(passed=1)


def test_popped_messages_are_waited_for_until_they_are_acknowledged(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from staticfire import Admin, SimpleConsumer, SimpleSettings

def left(rocketmq, orders):
    with pytest.raises(AssertionError) as raised:
        rocketmq.wait_consumed(orders, group="billing", timeout_s=0.1)
    return str(raised.value)

def test_simple(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    rocketmq.send(orders, "1", "2", "3")
    settings = SimpleSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    simple = SimpleConsumer("billing", rocketmq.namesrv, settings)
    simple.subscribe(orders)
    with simple:
        first, *_ = simple.receive(invisible_ms=20_000)
        simple.ack(first)
        in_flight = left(rocketmq, orders)
        assert "2 left (orders broker-a/0: 2)" in in_flight
        assert "2 messages popped and not acknowledged" in in_flight
        rocketmq.clock.advance(seconds=30)
        back = left(rocketmq, orders)
        assert "2 left (%RETRY%billing_orders broker-a/0: 2)" in back
        assert "it must call receive" in back
        for message in simple.receive():
            simple.ack(message)
        rocketmq.wait_consumed(orders, group="billing")

def test_push(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    with Admin(rocketmq.namesrv) as admin:
        admin.set_consume_mode(orders, "billing", "POP")
    tried = []
    def fail_once(messages, context):
        tried.append(messages[0].body)
        return ConsumeStatus.RECONSUME_LATER if len(tried) == 1 else ConsumeStatus.CONSUME_SUCCESS
    with consumer(rocketmq, "billing", fail_once, client_rebalance=False):
        rocketmq.send(orders, "1")
        rocketmq.wait_consumed(orders, group="billing")
        assert tried == [b"1"]
        rocketmq.clock.advance(minutes=1)
        rocketmq.wait_consumed(orders, group="billing")
        assert tried == [b"1", b"1"]
""",
    )
    result.assert_outcomes(passed=2)


def test_a_failed_test_shows_why_nothing_is_consumed(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_no_reader(rocketmq):
    rocketmq.wait_consumed(rocketmq.create_topic("empty"), group="billing")
    orders = rocketmq.create_topic("orders", queues=1)
    rocketmq.send(orders, "1", "2")
    rocketmq.wait_consumed(orders, group="billing", timeout_s=0.1)

def test_condition(rocketmq):
    rocketmq.wait_for(lambda: False, timeout_s=0.01, what="snow in July")

def test_too_few_dead(rocketmq):
    rocketmq.wait_dead("billing", timeout_s=0.01)
""",
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "E *billing has not consumed orders within 0.1 s: 2 left (orders broker-a/0: 2)",
            "*- RocketMQ -*",
            "topics: *orders*",
            "E *snow in July: not within 0.01 s",
            "E *billing has 0 dead letters and not 1 within 0.01 s",
        ]
    )
    result.stdout.no_fnmatch_line("*thread.call*")


@pytest.mark.slow
def test_a_marker_gives_a_cluster_of_its_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
pytestmark = pytest.mark.rocketmq(brokers=2, isolation="process")

def test_kill(rocketmq):
    rocketmq.cluster.broker("broker-b").kill()
    assert set(rocketmq.cluster.pids) == {"nameserver", "broker-a"}

def test_all_are_back(rocketmq):
    assert set(rocketmq.cluster.pids) == {"nameserver", "broker-a", "broker-b"}
    rocketmq.create_topic("orders")
""",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "error"),
    [
        ("(2)", "takes parameters by name, like brokers=2; not 2"),
        ("(borkers=2)", "takes the parameters of Cluster: *borkers*"),
        ("(brokers=0)", "a cluster can't have 0 brokers"),
        ("(settings=[1])", "settings=*1*: it must be a dictionary"),
    ],
)
def test_a_wrong_marker_is_reported(pytester: pytest.Pytester, marker: str, error: str) -> None:
    result = run(pytester, f"@pytest.mark.rocketmq{marker}\ndef test_it(rocketmq): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"rocketmq: *{error}*"])


def test_settings_of_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_brokers = 2\nrocketmq_settings =\n    autoCreateTopicEnable=false\n")
    result = run(
        pytester,
        """
def test_no_auto_creation(rocketmq):
    assert list(rocketmq.cluster.addresses) == ["broker-a", "broker-b"]
    with pytest.raises(Exception, match="orders"):
        rocketmq.send("orders", "1")
""",
    )
    result.assert_outcomes(passed=1)


def test_a_real_cluster_has_no_clock_and_names_of_the_tests_own(
    pytester: pytest.Pytester, nameserver_without_clock: str
) -> None:
    result = run(
        pytester,
        """
from staticfire import Cluster

def test_clock(rocketmq):
    rocketmq.clock.advance(hours=2)

@pytest.mark.rocketmq(brokers=2)
def test_two(rocketmq): ...

def test_names(rocketmq):
    assert rocketmq.is_real and rocketmq.group_name("billing") != "billing"
""",
        "--rocketmq-target", nameserver_without_clock,
    )  # fmt: skip
    result.assert_outcomes(passed=1, skipped=2)
    run(pytester, "def test_it(rocketmq): ...", "--rocketmq-target", "nonsense").assert_outcomes(errors=1)


def test_cluster_that_does_not_respond_is_an_error_of_each_test(pytester: pytest.Pytester) -> None:
    """A test that needs the clock isn't skipped: nothing is known about that cluster."""
    result = run(
        pytester,
        """
@pytest.mark.parametrize("time", [1, 2])
def test_clock(rocketmq, time):
    rocketmq.clock.advance(hours=2)
""",
        "--rocketmq-target", "127.0.0.1:1",
    )  # fmt: skip
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*ROCKETMQ_TARGET or --rocketmq-target*127.0.0.1:1*"])


def test_unittest(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from staticfire.testing import RocketMQTestCase

class OrdersTest(RocketMQTestCase):
    parameters = {"brokers": 2}

    def test_one(self):
        self.rocketmq.send(self.rocketmq.create_topic("orders"), "1")
        self.assertEqual(len(self.rocketmq.messages("orders")), 1)

    def test_two(self):
        self.assertEqual(self.rocketmq.messages("orders"), [])
""",
    )
    result.assert_outcomes(passed=2)
