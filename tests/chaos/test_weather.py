"""The faults that a seed plans, from what a program uses."""

from collections import Counter
from itertools import pairwise

import pytest

from staticfire.chaos.kinds import HELL, KINDS, MILD, ROUGH, WEATHERS, kinds_of
from staticfire.chaos.planned_fault import CLIENT, MEMBER, Begin, PlannedFault
from staticfire.chaos.usage import GroupUsage, Usage, learn
from staticfire.chaos.weather import APART, FAULTS_MAX, FAULTS_MIN, check_kinds, impossible, is_made_up, plan
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
    kinds = Counter(fault.kind for seed in SEEDS for fault in plan(seed, shop(), weather))
    assert set(kinds) == set(kinds_of(weather))
    assert set(kinds_of(MILD)) < set(kinds_of(ROUGH)) < set(kinds_of(HELL)) == set(KINDS)


@pytest.mark.parametrize("weather", WEATHERS)
def test_each_planned_rule_is_one_that_a_server_accepts(weather: str) -> None:
    for fault in (fault for seed in SEEDS for fault in plan(seed, shop(), weather)):
        assert fault.command.startswith("staticfire ")
        if fault.words:
            parse_fault(dict(fault.words))
        assert fault.how != CLIENT or "CLIENT" in fault.command


def test_command_of_a_member_has_the_rule_that_is_added_before_it_joins() -> None:
    words = (("code", "LOCK_BATCH_MQ"), ("drop", "request"), ("lifetime", "1s"))
    fault = PlannedFault("lost-lock", words, Begin(1, group="billing"), MEMBER, "billing", 500)
    assert fault.command == (
        "staticfire fault add --code LOCK_BATCH_MQ --drop request --lifetime 1s && "
        "staticfire member billing --stay 500ms  # after 1 delivery to billing"
    )


def test_plan_has_its_number_of_faults_and_at_most_one_long_one() -> None:
    for seed in SEEDS:
        faults = plan(seed, shop(), ROUGH)
        assert FAULTS_MIN - 2 <= len(faults) <= FAULTS_MAX
        assert sum(one.kind in ("freeze", "restart", "nameserver") for one in faults) <= 1
        assert [one.number for one in faults] == list(range(1, len(faults) + 1))


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


def test_a_request_with_many_messages_is_a_send_to_each_of_their_topics() -> None:
    many = request("SEND_MANY", "orders")
    many.details["body"] = [{"topic": topic} for topic in ("orders", "bills", "%RETRY%billing", "bills")]
    assert learn([], [many, send("bills", "1")], []).sends == {"orders": 1, "bills": 2}


def test_unknown_kind_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean duplicate"):
        check_kinds(["duplicat"])


def test_fault_is_shown_as_the_command_that_adds_it() -> None:
    fault = PlannedFault("busy", (("code", "SEND_MESSAGE"), ("answer", "SYSTEM_BUSY"), ("close", True)))
    assert fault.command == "staticfire fault add --code SEND_MESSAGE --answer SYSTEM_BUSY --close"
    assert fault.call == "cluster.faults.add(code='SEND_MESSAGE', answer='SYSTEM_BUSY', close=True)"


def test_mild_weather_fails_each_send_at_most_once() -> None:
    for usage in (Usage(Counter({"orders": 1}), {}, brokers=("broker-a",)), shop()):
        for seed in SEEDS:
            faults = plan(seed, usage, MILD, only=("busy", "lost-answer"))
            places = sorted(
                (str(dict(one.words)["topic"]), int(str(dict(one.words).get("after", 0)))) for one in faults
            )
            assert all(one != other or b - a >= APART for (one, a), (other, b) in pairwise(places))
            if len(usage.brokers) > 1:
                assert all("broker" in dict(one.words) for one in faults)


@pytest.mark.parametrize(
    ("name", "is_new_each_time"),
    [
        ("orders", False),
        ("orders-v2", False),
        ("facade-of-beads", False),
        ("orders-1795669892113", True),
        ("t-3f9a2c41b", True),
    ],
)
def test_name_that_a_program_makes_up(name: str, is_new_each_time: bool) -> None:
    assert is_made_up(name) == is_new_each_time


def test_fault_for_a_made_up_name_applies_to_any() -> None:
    groups = {"g-1795669892113": GroupUsage(Counter({"t-1795669892113": 9}), 3, 0, 9, 0, {"one"})}
    usage = Usage(Counter({"t-1795669892113": 9}), groups, brokers=("broker-a",))
    for fault in (one for seed in SEEDS for one in plan(seed, usage, HELL)):
        assert "1795669892113" not in fault.command
        assert "1795669892113" not in repr(fault)
