"""From a seed and what a program uses to faults."""

from collections import Counter
from itertools import pairwise

import pytest

from staticfire.chaos.kinds import HELL, KINDS, MILD, ROUGH, WEATHERS, kinds_of
from staticfire.chaos.strikes import CLIENT, PlannedFault
from staticfire.chaos.usage import GroupUsage, Usage, learn
from staticfire.chaos.weather import APART, STRIKES_MAX, STRIKES_MIN, check_kinds, impossible, plan
from staticfire.faults.parsing import parse_fault
from staticfire.protocol.errors import UsageError
from tests.chaos.runs import commit, delivered, joined, request, send

SEEDS = range(200)


def shop() -> Usage:
    """Return the use of a program that has everything."""
    members = {"one", "two"}
    pulled = GroupUsage(Counter({"orders": 30}), commits=12, pulls=20, members=members, is_ordered=True)
    concurrent = GroupUsage(Counter({"orders": 30}), commits=12, pulls=20, members=members)
    popped = GroupUsage(Counter({"bills": 9}), acks=9, pops=12)
    groups = {"billing": concurrent, "shipping": pulled, "audit": popped}
    return Usage(Counter({"orders": 30, "bills": 9}), groups, 5, set(), ("broker-a", "broker-b"))


@pytest.mark.parametrize("weather", WEATHERS)
def test_same_seed_gives_the_same_plan_and_another_one_another(weather: str) -> None:
    plans = [plan(seed, shop(), weather) for seed in SEEDS]
    assert plans == [plan(seed, shop(), weather) for seed in SEEDS]
    assert len({tuple(one) for one in plans}) > len(SEEDS) * 0.9


@pytest.mark.parametrize("weather", WEATHERS)
def test_all_kinds_of_a_weather_come_and_no_others(weather: str) -> None:
    kinds = Counter(strike.kind for seed in SEEDS for strike in plan(seed, shop(), weather))
    assert set(kinds) == set(kinds_of(weather))
    assert set(kinds_of(MILD)) < set(kinds_of(ROUGH)) < set(kinds_of(HELL)) == set(KINDS)


@pytest.mark.parametrize("weather", WEATHERS)
def test_each_planned_rule_is_one_that_a_server_accepts(weather: str) -> None:
    for strike in (strike for seed in SEEDS for strike in plan(seed, shop(), weather)):
        assert strike.command.startswith("staticfire ")
        if strike.words:
            parse_fault(dict(strike.words))
        assert strike.how != CLIENT or "CLIENT" in strike.command


def test_plan_has_its_number_of_faults_and_at_most_one_long_one() -> None:
    for seed in SEEDS:
        strikes = plan(seed, shop(), ROUGH)
        assert STRIKES_MIN - 2 <= len(strikes) <= STRIKES_MAX
        assert sum(one.kind in ("freeze", "restart", "nameserver") for one in strikes) <= 1
        assert [one.number for one in strikes] == list(range(1, len(strikes) + 1))


def test_only_and_never_are_obeyed() -> None:
    only = {one.kind for seed in SEEDS for one in plan(seed, shop(), MILD, only=("busy", "kill"))}
    assert only == {"busy", "kill"}
    never = {one.kind for seed in SEEDS for one in plan(seed, shop(), MILD, never=("busy", "slow"))}
    assert never == set(kinds_of(MILD)) - {"busy", "slow"}


def test_program_that_only_sends_gets_no_fault_of_consumers() -> None:
    usage = Usage(Counter({"orders": 3}), {}, brokers=("broker-a",))
    kinds = {one.kind for seed in SEEDS for one in plan(seed, usage, HELL)}
    assert "rebalance" not in kinds
    assert "busy" in kinds
    assert impossible(usage, ("busy", "lost-ack", "lost-end")) == ["lost-ack", "lost-end"]
    assert plan(1, usage, MILD, only=("rebalance",)) == []


def test_no_rebalance_where_members_do_not_share_queues() -> None:
    usage = shop()
    for group in usage.groups.values():
        group.is_broadcasting = True
    kinds = {one.kind for seed in SEEDS for one in plan(seed, usage, HELL)}
    assert not kinds & {"rebalance", "handover"}


def test_half_message_is_not_stored_twice() -> None:
    usage = shop()
    usage.half_topics = {"orders", "bills"}
    assert not [one for seed in SEEDS for one in plan(seed, usage, MILD) if one.kind == "duplicate"]


def test_use_is_learnt_from_events_and_requests() -> None:
    requests = [send("orders", "1"), send("%RETRY%billing", "2"), commit(3), request("LOCK_BATCH_MQ"), commit(4)]
    usage = learn([joined(), delivered(0, 3), delivered(0, 1, "%RETRY%billing")], requests, ["broker-a"])
    assert usage.sends == {"orders": 1}
    billing = usage.groups["billing"]
    assert (billing.deliveries, billing.commits, billing.is_ordered) == (1, 2, True)
    assert usage.topics == ["orders"]
    assert not usage.is_empty
    assert learn([], [], []).is_empty


def test_unknown_kind_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(UsageError, match="did you mean duplicate"):
        check_kinds(["duplicat"])


def test_fault_is_shown_as_the_command_that_adds_it() -> None:
    strike = PlannedFault("busy", (("code", "SEND_MESSAGE"), ("answer", "SYSTEM_BUSY"), ("close", True)))
    assert strike.command == "staticfire fault add --code SEND_MESSAGE --answer SYSTEM_BUSY --close"
    assert strike.call == "cluster.faults.add(code='SEND_MESSAGE', answer='SYSTEM_BUSY', close=True)"


def test_mild_weather_fails_each_send_at_most_once() -> None:
    for usage in (Usage(Counter({"orders": 1}), {}, brokers=("broker-a",)), shop()):
        for seed in SEEDS:
            strikes = plan(seed, usage, MILD, only=("busy", "lost-answer"))
            places = sorted(
                (str(dict(one.words)["topic"]), int(str(dict(one.words).get("after", 0)))) for one in strikes
            )
            assert all(one != other or b - a >= APART for (one, a), (other, b) in pairwise(places))
            if len(usage.brokers) > 1:
                assert all("broker" in dict(one.words) for one in strikes)
