"""Pops that wait, for a message or for a queue that is popped in order."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from staticfire.broker.pop.events import GroupQueue, OrderState
from staticfire.broker.pop.held import HeldPop, HeldPops
from staticfire.broker.pop.orders import OrderStates
from staticfire.protocol.times import MessageMs, UptimeMs

pytestmark = pytest.mark.row("G1")


class OpenCall:
    """A call of somebody who is there."""

    class connection:  # noqa: N801 (as of a call)
        is_open = True


def test_one_that_was_woken_for_nothing_and_waits_on_ends_once() -> None:
    held = HeldPops()
    pop = HeldPop(cast(Any, OpenCall), "orders", ("billing", -1), UptimeMs(100))
    held.hold(pop)
    for _ in range(2):
        assert held.take("orders", pop.key, lambda _: True) is pop
        held.hold(pop)
    assert held.take_all() == [pop]
    assert (held.count, held.next_deadline_ms(), held.take_all()) == (0, None, [])


def test_one_that_is_woken_in_vain_again_and_again_takes_no_more_memory() -> None:
    held = HeldPops()
    others = [HeldPop(cast(Any, OpenCall), "orders", ("billing", 1), UptimeMs(50 + 100 * at)) for at in range(2)]
    pop = HeldPop(cast(Any, OpenCall), "orders", ("billing", -1), UptimeMs(100))
    for one in (*others, pop):
        held.hold(one)
    for _ in range(10_000):
        assert held.take("orders", pop.key, lambda _: True) is pop
        held.hold(pop)
    assert len(held._dues) < 2_000  # house: only the memory shows it
    assert [*held.expire(UptimeMs(100))] == [others[0], pop]
    assert (held.count, held.next_deadline_ms()) == (1, 150)


def test_queues_that_are_popped_and_acknowledged_take_no_more_memory_until_they_would_be_due() -> None:
    orders, places = OrderStates(), [GroupQueue("billing", "orders", queue_id) for queue_id in range(2)]
    for pop_ms in range(5_000):
        for place in places:
            state = OrderState(pop_ms, 3_600_000, None, [0, 1])
            for acked in ([], [0], [0, 1]):
                orders.put(place, replace(state, acked=acked))
    assert len(orders._dues) < 2_000  # house: only the memory shows it
    orders.put(places[1], OrderState(10_000, 1_000, None, [2]))
    assert (orders.next_due_ms(), orders.take_due(MessageMs(10_999))) == (11_000, None)
    assert orders.take_due(MessageMs(11_000)) == (places[1], OrderState(10_000, 1_000, None, [2]))
    assert (orders.take_due(MessageMs(1 << 50)), orders.next_due_ms()) == (None, None)
