"""The ends of half messages at a reset, which deletes their queues."""

import asyncio
from typing import Any

from staticfire.broker.store.outcomes import PutOutcome
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand

HALF: dict[str, Any] = {"TRAN_MSG": "true", "PGROUP": "shop"}
ROLLBACK = 12


async def test_an_end_in_the_burst_of_a_reset_is_acknowledged(stand: BrokerStand) -> None:
    sent = await stand.send("orders", b"x", UNIQ_KEY="U1", **HALF)
    end = EndTransaction("shop", sent.queue_offset or 0, parse_offset_id(sent.msg_id or "")[1], ROLLBACK, msg_id="U1")
    ended, reset = await asyncio.gather(stand.ask(end), stand.ask(Reset()))
    assert (ended.code, reset.code) == (0, 0)
    assert (await stand.send("orders", b"y", UNIQ_KEY="U2", **HALF)).queue_offset == sent.queue_offset
    assert len(stand.broker.transactions) == 1


async def test_ends_that_are_not_in_a_burst_yet_are_refused_and_end_no_new_half_message(stand: BrokerStand) -> None:
    """A failure between the noting of an end and the end of its burst can leave it for the next one."""
    sent = await stand.send("orders", b"x", UNIQ_KEY="U1", **HALF)
    outcomes: list[PutOutcome] = []
    ending = stand.broker.transactions._ending  # house: only a failure in our own code could note it
    ending.note(sent.queue_offset or 0, lambda _call, _offset, _position, outcome: outcomes.append(outcome))
    stand.broker.transactions.forget()
    assert outcomes == [PutOutcome.FAILED]
    assert (ending.has_work, ending.offsets) == (False, set())


async def test_a_half_message_that_waits_for_the_disk_during_a_reset_is_not_open_later(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.restart(flush_disk_type="SYNC_FLUSH")
    world.disk(NAME).sync_ms = 1_000
    sending = asyncio.ensure_future(stand.send("orders", b"x", UNIQ_KEY="U1", **HALF))
    await world.run_for(100)
    await stand.ask(Reset())
    await sending
    assert len(stand.broker.transactions) == 0
