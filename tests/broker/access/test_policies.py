"""What policies decide. The cases were seen on a running RocketMQ 5.3.3; the order is that of later versions."""

from collections.abc import Sequence

import pytest

from staticfire.broker.access.policies import ALLOW, CUSTOM, DEFAULT, DENY, Acl, PolicyEntries, PolicyEntry, is_from
from staticfire.broker.access.resources import Resource, pattern_of
from tests.work import calls_in

pytestmark = pytest.mark.row("G7")


def entry(text: str, decision: str = ALLOW, actions: str = "Pub", sources: str = "") -> PolicyEntry:
    pattern = pattern_of(text)
    assert pattern is not None
    return PolicyEntry(pattern, tuple(actions.split(",")), tuple(filter(None, sources.split(","))), decision)


def decides(
    custom: Sequence[PolicyEntry],
    resource: str = "Topic:abc",
    action: str = "Pub",
    default: Sequence[PolicyEntry] = (),
    source: str = "127.0.0.1",
) -> str:
    acl = Acl()
    acl.policies[CUSTOM], acl.policies[DEFAULT] = PolicyEntries(custom), PolicyEntries(default)
    verdict = acl.decide(Resource(*resource.split(":")), frozenset({action}), source)
    return "allowed" if verdict.is_allowed else verdict.reason


DENIED, NO_MATCH = "the decision is deny.", "no matched policies."


@pytest.mark.parametrize(
    ("entries", "outcome"),
    [
        ([], NO_MATCH),
        ([entry("Topic:abc")], "allowed"),
        ([entry("Topic:abd")], NO_MATCH),
        ([entry("Topic:ab*")], "allowed"),
        ([entry("Topic:*")], "allowed"),
        ([entry("*")], "allowed"),
        ([entry("Group:*")], NO_MATCH),
        ([entry("Topic")], NO_MATCH),
        ([entry("Topic:abc", actions="Sub")], NO_MATCH),
        ([entry("Topic:abc", actions="All")], "allowed"),
        ([entry("topic:abc")], "allowed"),
        ([entry("Topic:abc", DENY), entry("*")], DENIED),
        ([entry("*"), entry("Topic:abc", DENY)], DENIED),
        ([entry("Topic:a*"), entry("Topic:abc", DENY)], DENIED),
        ([entry("Topic:abc", DENY), entry("Topic:a*")], DENIED),
        ([entry("Topic:a*", DENY), entry("Topic:ab*")], "allowed"),
        ([entry("Topic:ab*"), entry("Topic:a*", DENY)], "allowed"),
        ([entry("Topic:*", DENY), entry("Topic:a*")], "allowed"),
        ([entry("*", DENY), entry("Topic:*")], "allowed"),
        ([entry("Topic:abc", DENY, "Sub"), entry("Topic:ab*")], "allowed"),
        ([entry("Topic:abc"), entry("Topic:abc", DENY)], DENIED),
    ],
)
def test_the_most_specific_entry_decides_in_any_order(entries: list[PolicyEntry], outcome: str) -> None:
    assert decides(entries) == outcome
    assert decides(entries[::-1]) == outcome


def test_default_policies_count_only_where_no_custom_entry_matches() -> None:
    default = [entry("Topic:*")]
    assert decides([entry("Topic:abc", DENY)], default=default) == DENIED
    assert decides([entry("Topic:abc", DENY)], "Topic:zzz", default=default) == "allowed"
    assert decides([], default=[entry("Topic:abc", DENY)]) == DENIED


@pytest.mark.parametrize(
    ("sources", "source", "outcome"),
    [
        ("10.0.0.0/8", "10.1.2.3", "allowed"),
        ("10.0.0.0/8", "127.0.0.1", NO_MATCH),
        ("10.0.0.1,127.0.0.1", "127.0.0.1", "allowed"),
        ("fd00::/8", "fd00::1", "allowed"),
        ("fd00::/8", "10.0.0.1", NO_MATCH),
        ("10.0.0.0/8", "no address", NO_MATCH),
    ],
)
def test_an_entry_may_be_for_some_addresses_only(sources: str, source: str, outcome: str) -> None:
    assert decides([entry("Topic:abc", sources=sources)], source=source) == outcome


def test_an_entry_about_the_same_resource_is_replaced_as_a_whole() -> None:
    policy = PolicyEntries([entry("Topic:abc", actions="Pub,Sub", sources="10.0.0.1")])
    policy.put([entry("Topic:abc", DENY)])
    assert [(one.actions, one.sources, one.decision) for one in policy] == [(("Pub",), (), DENY)]


def test_ten_thousand_entries_are_not_looked_through() -> None:
    policy = PolicyEntries([entry(f"Topic:topic-{number}") for number in range(5_000)])
    policy.put([entry(f"Topic:ab{number}*") for number in range(5_000)])
    wanted = Resource("Topic", "ab4999-x"), frozenset({"Pub"}), "127.0.0.1"
    assert policy.decide(*wanted) is not None
    assert calls_in(lambda: policy.decide(*wanted)) < 200


def test_no_source_is_an_address_that_cannot_be_read() -> None:
    assert is_from("::1", ())
    assert not is_from("", ("10.0.0.0/8",))
