"""Tests that use a running `staticfire up` as their cluster (ROCKETMQ_TARGET)."""

from collections.abc import Iterator

import pytest

from staticfire import Admin
from tests.cli.commands import FREE_PORTS, Up
from tests.testing.test_plugin import run

TESTS = """
def test_clock_and_faults_and_names(rocketmq):
    orders, billing = rocketmq.create_topic("orders", queues=1), rocketmq.group_name("billing")
    assert not rocketmq.is_real and orders != "orders" and billing != "billing"
    tried = []
    def fail_once(messages, context):
        tried.append(messages[0].body)
        return ConsumeStatus.RECONSUME_LATER if len(tried) == 1 else ConsumeStatus.CONSUME_SUCCESS
    found = PushConsumer(
        billing, rocketmq.namesrv, PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    )
    found.subscribe(orders)
    found.listener(fail_once)
    rocketmq.clock.freeze()
    with found:
        rocketmq.send(orders, "1")
        rocketmq.wait_for(lambda: rocketmq.journal("sentBack", group=billing), what="the send-back")
        rocketmq.clock.advance(hours=1)
        rocketmq.wait_consumed(orders, group=billing)
    assert tried == [b"1", b"1"]
    rocketmq.faults.add(code="SEND_MESSAGE", topic=orders, answer="SYSTEM_BUSY")
    assert len(rocketmq.faults.all()) == 1

def test_the_next_test_has_none_of_it(rocketmq):
    assert rocketmq.clock.now().mode == "real"
    assert rocketmq.faults.all() == []

async def test_awaited(rocketmq):
    async with rocketmq.aio.faults.add(code="SEND_MESSAGE", delay="1ms"):
        assert len(await rocketmq.aio.faults.all()) == 1
    await rocketmq.aio.clock.advance(minutes=1)

def test_processes_belong_to_another_program(rocketmq):
    rocketmq.cluster.broker("broker-a").kill()
"""


@pytest.fixture
def namesrv() -> Iterator[str]:
    with Up("up", *FREE_PORTS, "--no-grpc") as up:
        yield up.reported("NAMESRV_ADDR")


def test_a_running_up_is_recognised_and_left_as_it_was(pytester: pytest.Pytester, namesrv: str) -> None:
    result = run(pytester, TESTS, "--rocketmq-target", namesrv, "-rs")
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED * rocketmq.cluster needs a cluster that this test run starts; {namesrv} *"])
    with Admin(namesrv) as admin:
        assert [name for name in admin.topics() if "orders-" in name or "billing-" in name] == []
        assert [name for name in admin.groups() if "billing" in name] == []
