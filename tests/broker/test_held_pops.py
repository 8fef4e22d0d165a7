"""Pops that wait."""

from typing import Any, cast

import pytest

from staticfire.broker.pop.held import HeldPop, HeldPops
from staticfire.protocol.times import UptimeMs

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
