"""`@pytest.mark.rocketmq(chaos="mild")`: a test without faults, then under those of seeds."""

from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.testing.weather import calm_first, judge_of, without_chaos

TEST = """
import threading
import pytest
from staticfire import Message, Producer, ProducerSettings, PushConsumer, PushSettings
from staticfire.chaos.member import CLIENT_ID

@pytest.mark.rocketmq({marker})
def test_billing(rocketmq, request):
    done, lock = [], threading.Lock()
    billing = PushConsumer("billing", rocketmq.namesrv, PushSettings(client=rocketmq.client_settings))
    billing.subscribe("orders")
    rocketmq.create_topic("orders")
    with Producer("shop", rocketmq.namesrv, ProducerSettings(client=rocketmq.client_settings)) as shop:
        @billing.listener
        def bill(messages, context):
            with lock:
                for message in messages:
                    if {is_right} and message.keys[0] in done:
                        continue
                    shop.send(Message("invoices", b"please pay", keys=message.keys[0]))
                    done.append(message.keys[0])
        with billing:
            for number in range(6):
                shop.send(Message("orders", b"1 book", keys=f"order-{{number}}"))
            rocketmq.wait_for(lambda: len(set(done)) == 6)
            rocketmq.wait_consumed("orders", "billing")
            if {waits_for_member} and "seed" in request.node.name:
                rocketmq.wait_for(lambda: rocketmq.cluster.journal("left", client=CLIENT_ID))
"""
PARAMETRIZED = """
import pytest
from staticfire import Message, Producer, ProducerSettings

@pytest.mark.rocketmq(chaos="mild", seeds=1, only="duplicate")
@pytest.mark.parametrize("topic", ["orders", "refunds"])
def test_sends(rocketmq, topic):
    rocketmq.create_topic(topic)
    with Producer("shop", rocketmq.namesrv, ProducerSettings(client=rocketmq.client_settings)) as shop:
        for number in range(20):
            shop.send(Message(topic, b"1 book", keys=str(number)))
"""
MARKER = 'chaos="mild", seeds=2, only="duplicate", each="orders -> invoices by key"'


def run(pytester: pytest.Pytester, marker: str, is_right: bool, waits_for_member: bool = False) -> pytest.RunResult:
    """`waits_for_member`: the test ends when the member of fault `rebalance` has come and gone, however late."""
    pytester.makepyfile(TEST.format(marker=marker, is_right=is_right, waits_for_member=waits_for_member))
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-o", "filterwarnings=default")


@pytest.mark.slow
def test_wrong_test_fails_under_faults_only(pytester: pytest.Pytester) -> None:
    result = run(pytester, MARKER, is_right=False)
    result.assert_outcomes(passed=3, errors=2)  # Its own lines pass; the promise is checked at the end.
    result.stdout.fnmatch_lines(["*the work was done twice*", "*staticfire fault add --code SEND_MESSAGE*--duplicate*"])


@pytest.mark.slow
def test_right_test_passes_for_each_seed(pytester: pytest.Pytester) -> None:
    run(pytester, MARKER, is_right=True).assert_outcomes(passed=3)


@pytest.mark.slow
@pytest.mark.parametrize("more", ['users={"admin": "secret"}', 'settings={"tls.server.mode": "enforcing"}'])
def test_brokers_that_check_signatures_or_speak_only_tls(pytester: pytest.Pytester, more: str) -> None:
    marker = f'chaos="mild", seeds=1, only="rebalance", each="orders -> invoices by key", {more}'
    run(pytester, marker, is_right=True, waits_for_member=True).assert_outcomes(passed=2)


def test_a_parametrized_test_is_planned_by_its_own_calm_run(pytester: pytest.Pytester) -> None:
    """The faults of a seed for another parameter's topic would hit nothing, and the test would be skipped."""
    pytester.makepyfile(PARAMETRIZED)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-o", "filterwarnings=default")
    result.assert_outcomes(passed=4)


class Run:
    """An item of pytest, as far as its order matters."""

    def __init__(self, weather: str, topics: list[str]) -> None:
        self.nodeid = f"t.py::test_sends[{weather}-{topics}]"
        self.callspec = SimpleNamespace(params={"_rocketmq_weather": weather, "topics": topics})


def test_each_parameter_begins_with_its_calm_run() -> None:
    one, two = ["orders"], ["refunds"]
    given = [Run("seed-1", one), Run("seed-1", two), Run("calm", two), Run("seed-2", one), Run("calm", one)]
    items: list[Any] = list(given)
    calm_first(items)
    assert items == [given[4], given[2], given[1], given[3], given[0]]


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ({"chaos": "wild"}, "the weathers are mild, rough, hell"),
        ({"seeds": 0}, "a whole number from 1 to 10,000"),
        ({"only": "duplicat"}, "did you mean duplicate"),
        ({"never": 7}, "write names"),
        ({"each": "orders"}, "isn't understood"),
    ],
)
def test_wrong_parameter_is_reported(marker: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        judge_of({"chaos": "mild", **marker})


def test_rough_weather_needs_processes() -> None:
    assert without_chaos({"chaos": "rough", "seeds": 3, "brokers": 2}) == {"brokers": 2, "isolation": "process"}
    assert without_chaos({"chaos": "mild", "each": "a -> b by key"}) == {}
