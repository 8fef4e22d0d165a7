"""A broker whose disk rots goes on: nobody gets what is damaged, and it says so."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.faults.simulation.world import SimulatedWorld
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from tests.scenarios.broker_stand import NAME, BrokerStand, ask_as_an_old_client


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    yield stand
    await stand.close()


def rot(stand: BrokerStand, log_position: int) -> None:
    """Spoil a byte of the body of the record at that position."""
    inode = stand.world.disk(NAME).files["/store/commitlog/" + "0" * 20]
    record_bytes = int.from_bytes(inode.content[log_position + 4 : log_position + 8], "big")
    inode.content[log_position + record_bytes - 1] ^= 1


def counts(stand: BrokerStand) -> tuple[int, int]:
    findings = stand.broker.state.store.findings
    return findings.damaged_records, findings.mended_entries


@pytest.mark.row("F4")
async def test_a_damaged_message_is_skipped_by_clients_of_every_protocol(stand: BrokerStand) -> None:
    await stand.start(scrub_bytes_per_second=0)
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body)
    second = (await stand.stored("orders"))[1]
    await stand.restart()
    rot(stand, second.log_position)
    assert await stand.bodies("orders") == [b"a", b"c"]
    pull = PullMessage("readers", "orders", 0, 1, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
    answer = await ask_as_an_old_client(stand.world, pull)
    assert answer.next_begin_offset == 3
    assert counts(stand) == (1, 0)
    assert (await stand.send_back(second)).code != 0


async def test_a_damaged_delayed_message_is_not_stored_again_as_if_it_were_whole(stand: BrokerStand) -> None:
    await stand.start(scrub_bytes_per_second=0)
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body, DELAY="5")
    store = stand.broker.state.store
    entries = store.entries(store.queue("SCHEDULE_TOPIC_XXXX", 4), 0, 3)
    rot(stand, entries[1].log_position)
    await stand.world.run_for(65_000)
    assert await stand.bodies("orders") == [b"a", b"c"]


async def test_the_scrub_tells_what_nobody_reads(stand: BrokerStand) -> None:
    await stand.start()
    sent = await stand.send("orders", b"a")
    first = (await stand.stored("orders", sent.queue_id or 0))[0]
    await stand.world.run_for(20_000)
    assert counts(stand) == (0, 0)
    rot(stand, first.log_position)
    await stand.world.run_for(200_000)
    assert counts(stand) == (1, 0)
