"""A broker whose disk rots goes on: nobody gets what is damaged, and it says so."""

import errno
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.scrubbing import ROUND_PAUSE_MS
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world.world import SimulatedWorld
from tests.cases import slow
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


LEVEL_5 = "/store/consumequeue/SCHEDULE_TOPIC_XXXX/4/" + "0" * 20


def spoil_due_time(stand: BrokerStand, index: int, by_ms: int) -> None:
    """Change what the entry of a message of level 5 says of when it is due."""
    content, at = stand.world.disk(NAME).files[LEVEL_5].content, index * ENTRY_BYTES
    position, size, due_ms = ENTRY.unpack_from(content, at)
    ENTRY.pack_into(content, at, position, size, due_ms + by_ms)


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


@pytest.mark.parametrize(
    ("delay", "topic", "queue_id"),
    [({"DELAY": "5"}, "SCHEDULE_TOPIC_XXXX", 4), ({"TIMER_DELAY_SEC": "60"}, "rmq_sys_wheel_timer", 0)],
)
async def test_a_damaged_delayed_message_is_not_stored_again_as_if_it_were_whole(
    stand: BrokerStand, delay: dict[str, Any], topic: str, queue_id: int
) -> None:
    await stand.start(scrub_bytes_per_second=0)
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body, **delay)
    store = stand.broker.state.store
    entries = store.entries(store.queue(topic, queue_id), 0, 3)
    rot(stand, entries[1].log_position)
    await stand.world.run_for(65_000)
    assert await stand.bodies("orders") == [b"a", b"c"]


@pytest.mark.parametrize("wrong_by_ms", [-9_000, 20_000, -(10**12), 10**12])
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_a_wrong_due_time_in_a_queue_doesnt_change_when_a_message_comes(
    stand: BrokerStand, index: int, wrong_by_ms: int
) -> None:
    await stand.start(scrub_bytes_per_second=0)
    sent_ms = []
    for body in (b"a", b"b", b"c"):
        sent_ms.append(stand.message_ms)
        await stand.send("orders", body, DELAY="5")
        await stand.world.run_for(10_000)
    await stand.restart()
    spoil_due_time(stand, index, wrong_by_ms)
    await stand.world.run_for(65_000)
    records = await stand.stored("orders")
    assert [record.body for record in records] == [b"a", b"b", b"c"]
    late_ms = [record.stored_ms - sent - 60_000 for record, sent in zip(records, sent_ms, strict=True)]
    assert all(0 <= late < 100 for late in late_ms), late_ms
    assert counts(stand) == (0, 1 if index else 0)  # The first one's entry was read before.


@pytest.mark.parametrize("wrong_by_ms", [-9_000, 20_000, 10**12])
async def test_a_wrong_due_time_is_found_also_if_the_levels_are_others_since(
    stand: BrokerStand, wrong_by_ms: int
) -> None:
    await stand.start(scrub_bytes_per_second=0)
    sent_ms = stand.message_ms
    await stand.send("orders", b"x", DELAY="5")
    await stand.world.stop(NAME)
    spoil_due_time(stand, 0, wrong_by_ms)
    await stand.start(message_delay_level="1s 5s 10s 30s 2h")
    await stand.world.run_for(65_000)
    (record,) = await stand.stored("orders")
    assert 0 <= record.stored_ms - sent_ms - 60_000 < 100
    assert counts(stand) == (0, 1)


async def test_a_lost_file_of_a_level_is_rebuilt_while_its_messages_wait(stand: BrokerStand) -> None:
    await stand.start(scrub_bytes_per_second=0)
    await stand.send("orders", b"a", DELAY="5")
    await stand.world.run_for(10_000)
    await stand.send("orders", b"b", DELAY="5")
    await stand.restart()
    assert stand.broker.delays.next_due_ms() is not None
    stand.world.disk(NAME).files[LEVEL_5].content.clear()
    await stand.world.run_for(61_000)
    assert await stand.bodies("orders") == [b"a", b"b"]


async def test_the_scrub_reports_what_no_client_reads(stand: BrokerStand) -> None:
    await stand.start()
    sent = await stand.send("orders", b"a")
    first = (await stand.stored("orders", sent.queue_id or 0))[0]
    await stand.world.run_for(20_000)
    assert counts(stand) == (0, 0)
    rot(stand, first.log_position)
    await stand.world.run_for(2 * ROUND_PAUSE_MS)
    assert counts(stand) == (1, 0)


async def test_a_read_that_fails_once_is_no_bad_sector(stand: BrokerStand) -> None:
    await stand.start(scrub_bytes_per_second=0)
    await stand.send("orders", b"a")
    await stand.restart()
    reads: list[int] = []

    def fail_every_second(path: str, position: int, _: int, is_map: bool) -> int:
        if "/commitlog/" in path and not is_map:
            reads.append(position)
            if len(reads) % 2:
                raise OSError(errno.EIO, "Input/output error")
        return position

    stand.world.disk(NAME).on_read = fail_every_second
    assert await stand.bodies("orders") == [b"a"]
    assert len(reads) > 1
    assert counts(stand) == (0, 0)


@pytest.mark.row("F4")
async def test_a_reset_by_time_passes_no_whole_message_when_the_tail_is_damaged(stand: BrokerStand) -> None:
    await stand.start(scrub_bytes_per_second=0)
    await stand.put_topic("orders", 1)
    await stand.put_group("billing")
    for number in range(10):
        await stand.send("orders", b"%d" % number)
        await stand.world.run_for(1_000)
    records = await stand.stored("orders")
    await stand.restart()
    for record in records[4:]:
        rot(stand, record.log_position)
    for record in records[:4]:
        assert (await stand.ask(ResetOffset("billing", "orders", record.stored_ms))).code == 0
        assert stand.broker.tables.groups.offsets.committed("billing", "orders", 0) == record.queue_offset


@pytest.mark.row("F4")
@pytest.mark.parametrize(("at_once", "tags"), [(1, "*"), (32, "paid"), slow(3, "paid"), slow(32, "*")])
async def test_an_entry_that_points_at_another_record_of_its_queue_hands_out_no_other_message(
    stand: BrokerStand, at_once: int, tags: str
) -> None:
    """It is made anew from the log, whatever was read before it."""
    await stand.start(scrub_bytes_per_second=0)
    await stand.put_topic("orders", 1)
    for number in range(6):
        await stand.send("orders", b"%d" % number, TAGS="paid" if number % 2 else "open")
    await stand.restart()
    content = stand.world.disk(NAME).files["/store/consumequeue/orders/0/" + "0" * 20].content
    entries = [bytes(content[at : at + ENTRY_BYTES]) for at in range(0, 6 * ENTRY_BYTES, ENTRY_BYTES)]
    wrong = []
    for at, other in product(range(6), range(6)):
        await stand.restart()
        assert await pulled(stand, 0, other + 1, at_once, tags) == wanted_bodies(0, other + 1, tags)
        content = stand.world.disk(NAME).files["/store/consumequeue/orders/0/" + "0" * 20].content
        content[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES] = entries[other]
        for first in (at, max(0, at - 1), 0):
            found = await pulled(stand, first, 6, at_once, tags)
            if found != wanted_bodies(first, 6, tags):
                wrong.append((at, other, first, found))
        content[:] = b"".join(entries)
    assert wrong == []


def wanted_bodies(first: int, end: int, tags: str) -> list[bytes]:
    return [b"%d" % number for number in range(first, end) if tags == "*" or number % 2]


async def pulled(stand: BrokerStand, first: int, end: int, at_once: int, tags: str) -> list[bytes]:
    """Return the bodies of the messages between two offsets, as pulls of so many have them."""
    bodies: list[bytes] = []
    offset = first
    while offset < end:
        pull = PullMessage("readers", "orders", 0, offset, at_once, FLAG_SUBSCRIPTION, 0, 0, tags)
        answer = await stand.ask(pull)
        records = [] if answer.code else answer.body.records
        bodies += [record.body for record in records if record.queue_offset < end]
        assert answer.next_begin_offset > offset
        offset = answer.next_begin_offset
    return bodies
