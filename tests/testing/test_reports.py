"""What a failed or skipped test shows of its cluster: the cause first, as things were when the test failed."""

import pytest

from tests.testing.test_plugin import run


def section(result: pytest.RunResult) -> str:
    """Return the section RocketMQ of the only failed test."""
    _, _, rest = result.stdout.str().partition("- RocketMQ -")
    return rest.partition("short test summary")[0]


@pytest.mark.parametrize(
    "test",
    [
        """
async def test_async_with(rocketmq):
    orders = await rocketmq.aio.create_topic("orders", queues=1)
    async with consumer(rocketmq, "billing", done):
        await rocketmq.aio.send(orders, "1")
        await rocketmq.aio.wait_consumed(orders, group="billing")
        assert orders == "refunds"
""",
        """
def test_with(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    with consumer(rocketmq, "billing", done):
        rocketmq.send(orders, "1")
        rocketmq.wait_consumed(orders, group="billing")
        pytest.fail("no refund")
""",
        """
async def test_task_group(rocketmq):
    import asyncio
    orders = await rocketmq.aio.create_topic("orders", queues=1)
    async def work():
        await rocketmq.aio.send(orders, "1")
        async with consumer(rocketmq, "billing", done):
            await rocketmq.aio.wait_consumed(orders, group="billing")
            raise ValueError("no refund")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work())
""",
        """
@pytest.fixture
def billing(rocketmq):
    rocketmq.send(rocketmq.create_topic("orders", queues=1), "1")
    with consumer(rocketmq, "billing", done):
        rocketmq.wait_consumed("orders", group="billing")
        yield

def test_fixture(billing):
    assert 1 == 2
""",
    ],
    ids=["async with", "with", "task group", "fixture"],
)
def test_the_report_shows_the_group_as_it_was_when_the_test_failed(pytester: pytest.Pytester, test: str) -> None:
    result = run(pytester, test)
    result.assert_outcomes(failed=1)
    assert "billing: 1 member" in section(result)
    assert "no member" not in section(result)


def test_a_fault_of_a_with_block_is_in_the_report(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_fault(rocketmq):
    rocketmq.send(rocketmq.create_topic("orders", queues=1), "1")
    with consumer(rocketmq, "billing", done):
        rocketmq.wait_consumed("orders", group="billing")
    with rocketmq.cluster.faults.add(code="PULL_MESSAGE", drop=True):
        assert 1 == 2
""",
    )
    result.assert_outcomes(failed=1)
    assert "1 fault rule" in section(result)


def test_a_group_that_pops_is_in_the_report_under_its_name(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from staticfire import SimpleConsumer

def test_simple(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    simple = SimpleConsumer("billing", rocketmq.namesrv)
    simple.subscribe(orders)
    with simple:
        rocketmq.send(orders, "1")
        simple.receive(invisible_ms=1_000)
        rocketmq.clock.advance(seconds=10)
        assert 1 == 2
""",
    )
    result.assert_outcomes(failed=1)
    assert "billing: 1 member" in section(result)
    assert "billing_orders:" not in section(result)


def test_an_exception_that_the_test_expects_leaves_nothing_for_a_later_report(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_expected(rocketmq):
    orders = rocketmq.create_topic("orders", queues=1)
    rocketmq.send(orders, "1")
    with pytest.raises(ValueError):
        with consumer(rocketmq, "billing", done):
            rocketmq.wait_consumed(orders, group="billing")
            raise ValueError
    assert 1 == 2
""",
    )
    result.assert_outcomes(failed=1)
    assert "billing: 0 members" in section(result)


def test_a_wait_says_what_it_waited_for_and_why_it_may_not_come(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_lambda(rocketmq):
    rocketmq.send(rocketmq.create_topic("orders", queues=1), "1")
    with consumer(rocketmq, "billing", done):
        rocketmq.wait_consumed("orders", group="billing")
    seen = []
    rocketmq.wait_for(lambda: len(seen) == 2, timeout_s=0.01)

async def test_function(rocketmq):
    async def all_are_paid():
        return []
    await rocketmq.aio.wait_for(all_are_paid, timeout_s=0.01)
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E *NotYet: len(seen) == 2: not within 0.01 s",
            "E *its last value was False",
            "E *billing: 0 members*",
            "E *NotYet: all_are_paid: not within 0.01 s",
            "E *its last value was [[][]]",
        ]
    )


def test_a_wrong_call_is_shown_at_the_test_without_our_frames(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_zero(rocketmq):
    rocketmq.create_topic("orders", queues=0)

async def test_zero_awaited(rocketmq):
    await rocketmq.aio.create_topic("orders", queues=0)
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E *UsageError: queues=0: *"])
    for frame in ("running_rocketmq.py", "cluster_calls.py", "loop_thread.py", "futures"):
        assert frame not in result.stdout.str()


def test_a_skip_stands_at_the_test(pytester: pytest.Pytester, nameserver_without_clock: str) -> None:
    result = run(
        pytester,
        """
def test_clock(rocketmq):
    rocketmq.clock.advance(hours=2)

@pytest.mark.rocketmq(brokers=2)
def test_two(rocketmq):
    pass
""",
        "--rocketmq-target", nameserver_without_clock, "-rs",
    )  # fmt: skip
    result.assert_outcomes(skipped=2)
    (path,) = pytester.path.glob("test_*.py")
    used = next(number for number, line in enumerate(path.read_text().splitlines(), 1) if "clock.advance" in line)
    result.stdout.fnmatch_lines(
        [f"SKIPPED * {path.name}:{used}: rocketmq.clock needs *", f"SKIPPED * {path.name}:*: *brokers*"]
    )
