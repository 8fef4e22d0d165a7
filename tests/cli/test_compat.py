"""`--compat rocketmq-5.3.3`: what is set then is RocketMQ's own default, and what stays different is told."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from staticfire import Cluster, UsageError
from staticfire.broker.settings import BrokerSettings
from staticfire.launch.compat import ROCKETMQ, compat_settings, differences
from staticfire.launch.plan import ClusterPlan, GivenSettings, plan_cluster
from staticfire.nameserver.settings import NameserverSettings
from staticfire.runtime.config import field_of, key_of, text_of
from tests.cli.commands import FREE_PORTS, Up, call, one_line

DEFAULTS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "rocketmq_defaults.json").read_text())
"""Of 5.3.3, as `new BrokerConfig()`, `new MessageStoreConfig()` and `new NamesrvConfig()` say them."""
WITHOUT_EFFECT_THERE = {"brokerHeartbeatInterval", "brokerNotActiveTimeoutMillis"}
"""In RocketMQ they act beside an acting master only."""
OWN_SETTINGS = {
    "answerNewerSubscriptionUnfiltered",
    "anyPullTakesResets",
    "ignoreLateCommits",
    "popDeadLetters",
    "rememberFirstOffsets",
    "repeatEndedCommits",
    "wakePopsOfReturning",
}
"""RocketMQ has no such settings; what it does is what these turn on or off."""


def planned(**settings: str) -> ClusterPlan:
    given = GivenSettings(settings, {}, compat=compat_settings(ROCKETMQ))
    return plan_cluster("/data", [9876], [10911], given)


@pytest.mark.row("S8")
def test_every_setting_that_rocketmq_has_is_its_default() -> None:
    plan = planned()
    for settings, cls in ((plan.brokers[0], BrokerSettings), (plan.nameservers[0], NameserverSettings)):
        of_theirs = DEFAULTS[cls.__name__]
        ours = {key_of(one): text_of(getattr(settings, one.name)) for one in fields(cls)}
        assert {name: text for name, text in ours.items() if name in of_theirs.keys() - WITHOUT_EFFECT_THERE} == {
            name: text for name, text in of_theirs.items() if name not in WITHOUT_EFFECT_THERE
        }


def test_each_switch_changes_something_and_is_known() -> None:
    """A difference that is turned off by a setting must be one without it."""
    plain = plan_cluster("/data", [9876], [10911], GivenSettings({}, {})).brokers[0]
    compatible = planned().brokers[0]
    for name, value in compat_settings(ROCKETMQ).items():
        known = field_of(BrokerSettings, name)
        assert known is not None, name
        assert text_of(getattr(compatible, known)) == value
        assert getattr(plain, known) != getattr(compatible, known), name
        assert (name in OWN_SETTINGS) != (DEFAULTS["BrokerSettings"].get(name) == value), name


def test_what_a_user_sets_counts_all_the_same() -> None:
    assert planned(traceTopicEnable="true").brokers[0].trace_topic_enable
    with Cluster(compat=ROCKETMQ, settings={"recallMessageEnable": True}) as cluster:
        assert cluster.namesrv


def test_up_and_broker_list_what_stays_different() -> None:
    rest = [one for one in differences() if not one.setting]
    assert len(rest) > 30
    with Up("up", *FREE_PORTS, "--compat", ROCKETMQ) as up:
        _, err = up.stop()
    with Up("broker", "--port", "0", "--compat", ROCKETMQ, ready="The broker[") as broker:
        _, of_broker = broker.stop()
    for lines in (err, of_broker):
        assert "staticfire: as rocketmq-5.3.3: traceTopicEnable=false" in lines
        assert f"staticfire: {len(rest)} differences remain" in lines
        for one in rest:
            assert f"  {one.what}: RocketMQ: {one.rocketmq}; here: {one.ours}" in lines


def test_run_says_it_in_one_line() -> None:
    ran = call("run", "--no-grpc", "--compat", ROCKETMQ, "--", "true")
    assert ran.returncode == 0
    assert one_line(ran.stderr).startswith("staticfire: as rocketmq-5.3.3; ")


@pytest.mark.parametrize("command", [["up", *FREE_PORTS], ["run", "true"], ["broker"]])
def test_another_rocketmq_is_refused(command: list[str]) -> None:
    refused = call(command[0], "--compat", "rocketmq-4", *command[1:])
    assert refused.returncode == 2
    assert "'rocketmq-4' is unknown; known: rocketmq-5.3.3" in one_line(refused.stderr)


def test_another_rocketmq_is_refused_by_a_cluster() -> None:
    wrong: Any = "5.3.3"
    with pytest.raises(UsageError, match=r"compat='5\.3\.3' is unknown; known: rocketmq-5\.3\.3"):
        Cluster(compat=wrong)
