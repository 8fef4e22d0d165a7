"""A group of equal members is recognized without a look at each of them, and all others are looked at."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from staticfire.broker.groups.consumers import ConsumerManager, MemberKinds
from staticfire.broker.groups.findings import findings_of
from staticfire.protocol.requests.clients import ConsumerData, SubscriptionData
from staticfire.protocol.times import UptimeMs

pytestmark = pytest.mark.row("C1")


class Peer(NamedTuple):
    address: str


@dataclass(frozen=True)
class Link:
    """What the tables read of a connection."""

    peer: Peer


LINKS: list[Any] = [Link(Peer(f"10.0.0.{number}:1")) for number in range(4)]
EXPRESSIONS = ["*", "a || b", "b||a", "a"]
TOPICS = st.dictionaries(st.sampled_from(["orders", "%RETRY%g", "news"]), st.sampled_from(EXPRESSIONS), max_size=2)
MODELS = st.sampled_from(["CLUSTERING", "CLUSTERING", "CLUSTERING", "BROADCASTING"])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("register"), st.sampled_from(LINKS), st.sampled_from(["one", "two", "three"]), TOPICS, MODELS,
            st.sampled_from([None, None, True, False]), st.booleans(),
        ),
        st.tuples(st.just("unregister"), st.sampled_from(LINKS)),
        st.tuples(st.just("disconnect"), st.sampled_from(LINKS)),
        st.tuples(st.just("saw_order"), st.sampled_from(LINKS), st.booleans()),
    ),
    max_size=12,
)  # fmt: skip


def play(manager: ConsumerManager, step: tuple[Any, ...], now: UptimeMs) -> None:
    match step:
        case "register", link, client_id, topics, model, in_order, is_short:
            subscriptions = [SubscriptionData(topic, expression) for topic, expression in topics.items()]
            data = ConsumerData("g", "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", subscriptions)
            data.consume_orderly = in_order
            manager.register(data, link, client_id, now, keep_subscriptions=is_short)
        case "unregister", link:
            manager.unregister("g", link, None)
        case "disconnect", link:
            manager.disconnect(link, now)
        case "saw_order", link, in_order:
            manager.saw_order("g", link, in_order)


@given(STEPS)
def test_the_short_way_finds_what_the_long_way_finds(steps: list[tuple[Any, ...]]) -> None:
    manager = ConsumerManager()
    for number, step in enumerate(steps):
        play(manager, step, UptimeMs(1_000 * number))
        group = manager.consumer_table.get("g")
        if group is None:
            continue
        found = findings_of(group)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemberKinds, "are_equal", False)
            assert findings_of(group) == found
        assert group.kinds.orders() == {member.in_order for member in group.channel_info_table.values()}


def test_equal_members_are_equal_until_one_differs() -> None:
    wanted, manager = [SubscriptionData("orders", "*")], ConsumerManager()
    for number in range(1_000):
        data = ConsumerData("g", subscription_data_set=wanted)
        link: Any = Link(Peer(f"10.0.0.1:{number}"))
        manager.register(data, link, f"client-{number}", UptimeMs(0))
    equal = [manager.consumer_table["g"].kinds.are_equal]
    other: Any = Link(Peer("10.0.0.2:1"))
    manager.register(
        ConsumerData("g", subscription_data_set=[SubscriptionData("orders", "a")]), other, "x", UptimeMs(1)
    )
    equal.append(manager.consumer_table["g"].kinds.are_equal)
    manager.disconnect(other, UptimeMs(2))
    equal.append(manager.consumer_table["g"].kinds.are_equal)
    assert equal == [True, False, True]
