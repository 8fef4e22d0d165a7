"""One bit of one file is flipped while no broker runs: the next start knows all as it was, or is refused.

A start may also make anew from the log what the file said; then it logs that. What may not happen is another state
without a word.
"""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.assignment import (
    MODE_POP,
    GetMessageRequestModes,
    MessageRequestMode,
    SetMessageRequestMode,
)
from staticfire.protocol.requests.clock import FROZEN, REAL, ClockReading
from staticfire.protocol.requests.offsets import UpdateConsumerOffset
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.protocol.times import MessageMs
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.disk import DiskImage
from tests.cases import first_and_slow
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.consuming import Shop
from tests.scenarios.logged import LogLine
from tests.scenarios.test_journal import ON, filled

HALVES, TIMED, DELAYED = 9, 30, 5
SEGMENT_BYTES = 16_384
CONFIG = (
    "consumerOffset.json",
    "delayLevels.json",
    "delayOffset.json",
    "messageRequestMode.json",
    "staticfireClock.json",
    "subscriptionGroup.json",
    "timers.json",
    "topics.json",
    "transactions.json",
)
FROM_LOG = ("delayLevels.json", "delayOffset.json", "timers.json", "transactions.json")
# The broker can do without them.
HEAD_BYTES, FLIPS = 34, 20
# Per file: each byte of its head, and so many others.
WAYS_ON = ("move it away", "remove it", "repair it")

State = dict[str, Any]


async def fill(stand: BrokerStand) -> None:
    """Let each file of the folder say something."""
    world, store = stand.world, stand.broker.state.store
    for _ in range(20):
        await stand.send("old", bytes(1000))
    store.flush()
    assert store.remove_segments_before(SEGMENT_BYTES) == 1  # It is noted where the log begins.
    await stand.put_topic("orders", 2)
    await stand.put_topic("gone", 1)
    await stand.put_group("billing", retry_max_times=3)
    await stand.send("gone", b"x")
    assert (await stand.ask(DeleteTopic("gone"))).code == 0
    for number in range(10):
        await stand.send("orders", b"now %d" % number, number % 2, TAGS="paid", KEYS=f"k{number}")
    for number in range(DELAYED):
        await stand.send("orders", b"delayed %d" % number, DELAY="1" if number < 2 else "9")
    for number in range(TIMED):
        await stand.send("orders", b"timed %d" % number, TIMER_DELAY_SEC="1" if number % 3 else "600")
    halves = [
        await stand.send("orders", b"half %d" % number, TRAN_MSG="true", PGROUP="shop", UNIQ_KEY=f"U{number}")
        for number in range(HALVES)
    ]
    for half in halves[::3]:
        end = EndTransaction("shop", half.queue_offset or 0, _position(half.msg_id), TransactionKind.COMMIT)
        assert (await stand.ask(end)).code == 0
    for queue_id in range(2):
        assert (await stand.ask(UpdateConsumerOffset("billing", "orders", queue_id, 3 + queue_id))).code == 0
    mode = MessageRequestMode("orders", "billing", MODE_POP, 2)
    assert (await stand.ask(SetMessageRequestMode(body=mode))).code == 0
    await world.run_for(seconds=20)
    clock = stand.broker.state.clock
    clock.set(ClockReading(1, FROZEN, 0.0, clock.message_ms()))


def _position(message_id: str | None) -> int:
    return int((message_id or "")[-16:], 16)


async def known(stand: BrokerStand) -> State:
    """Return what a broker knows."""
    broker = stand.broker
    state, tables = broker.state, broker.tables
    return {
        "topics": dict(tables.topics.topics),
        "groups": dict(tables.groups.configs.groups),
        "offsets": sorted(tables.groups.offsets.all_committed()),
        "modes": (await stand.ask(GetMessageRequestModes())).body,
        "delays": broker.delays.queue.waiting(),
        "timers": sorted(broker.timers.waiting_places()),
        "halves": sorted(position for _, position in broker.transactions.waiting_places()),
        "next questions": sorted(due_ms for due_ms, _ in broker.transactions.waiting_places()),
        "clock": state.clock.reading(),
        "deletions": dict(state.store.deletions),
        "bodies": [await stand.bodies("orders", queue_id) for queue_id in range(2)],
        "offered later": await later(stand),
    }


async def later(stand: BrokerStand) -> list[list[bytes]]:
    """Return all bodies an hour later: whatever waited for a time is there."""
    clock = stand.broker.state.clock
    clock.set(ClockReading(2, REAL, 1.0, MessageMs(clock.message_ms() + 3_600_000)))
    await stand.world.run_for(ms=200)
    return [sorted(await stand.bodies("orders", queue_id)) for queue_id in range(2)]


class Flipped(BrokerStand):
    """A broker whose folder was filled once; each `start_with` begins with that folder and one bit flipped."""

    image: DiskImage
    expected: State

    async def fill(self, is_killed: bool = False) -> None:
        await self.start(scrub_bytes_per_second=0, mapped_file_size_commit_log=SEGMENT_BYTES)
        await fill(self)
        if is_killed:
            self.world.kill(NAME)
        else:
            await self.world.stop(NAME)
        self.image = self.world.disk(NAME).image()
        await self.start()
        await self.world.run_for(ms=50)
        self.expected = await known(self)
        await self.world.stop(NAME)
        assert len(self.expected["halves"]) == HALVES - len(range(0, HALVES, 3))
        assert len(self.expected["timers"]) == TIMED // 3
        assert self.expected["delays"] == {9: DELAYED - 2}
        assert sum(map(len, self.expected["offered later"])) == 10 + DELAYED + TIMED + len(range(0, HALVES, 3))

    def content(self, path: str) -> bytes:
        """Return what a file has, up to its last byte that isn't zero."""
        return bytes(self.world.disk(NAME).files[path].content).rstrip(b"\0")

    async def start_with(self, path: str, at: int, mask: int) -> tuple[str, State]:
        """Return why the start was refused, or what the broker knows."""
        disk = self.world.disk(NAME)
        disk.put_back(self.image)
        self.image = disk.image()
        disk.rot(path, at, mask)
        try:
            await self.start()
        except StorageError as error:
            self.world.kill(NAME)
            return str(error), {}
        await self.world.run_for(ms=50)
        state = await known(self)
        self.world.kill(NAME)
        await self.world.run_for(ms=10)  # The client sees that its connection is gone.
        return "", state


@pytest_asyncio.fixture
async def flipped(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Flipped]:
    stand = Flipped(world)
    await stand.fill(is_killed=getattr(request, "param", "") == "killed")
    yield stand
    await stand.close()


@pytest.mark.row("F4")
@pytest.mark.parametrize("name", first_and_slow(CONFIG))
async def test_a_flipped_bit_of_a_state_file_changes_nothing_or_the_start_names_the_file(
    flipped: Flipped, name: str, logged: list[LogLine]
) -> None:
    path, chance, made_anew = f"/store/config/{name}", Random(name), 0
    size = flipped.world.disk(NAME).files[path].size
    wrong = []
    for at in [*range(HEAD_BYTES), *(chance.randrange(size) for _ in range(FLIPS))]:
        mask = 1 << chance.randrange(8)
        refused, state = await flipped.start_with(path, at, mask)
        if refused:
            assert name in refused, refused
            assert any(words in refused for words in WAYS_ON), refused
            continue
        lines = [line for line in logged if line.event == "state_file_made_anew"]
        logged.clear()
        if lines:
            assert [line.fields["file"] for line in lines] == [name]
            made_anew += 1
        may_differ = {"next questions"} if lines and name == "transactions.json" else set[str]()
        parts = [part for part in state if state[part] != flipped.expected[part] and part not in may_differ]
        wrong += [(at, mask, parts)] if parts else []
    assert wrong == []
    assert (made_anew > HEAD_BYTES) == (name in FROM_LOG)


STORE_FLIPS = {"commitlog": 20, "consumequeue": 4}
# Per file; of the others 10.
TROUBLE = ("error", "warning")


@pytest.mark.row("F4")
@pytest.mark.parametrize("flipped", first_and_slow(["stopped", "killed"]), indirect=True)
async def test_a_flipped_bit_of_any_other_file_loses_one_message_at_most_and_never_without_a_word(
    flipped: Flipped, logged: list[LogLine]
) -> None:
    disk, chance = flipped.world.disk(NAME), Random(22)
    disk.put_back(flipped.image)
    flipped.image = disk.image()
    paths = sorted(path for path in disk.files if "/config/" not in path and not path.endswith("/lock"))
    assert {"checkpoint", "queueEnds", "deletedTopics", "logStart"} <= {path.split("/")[2] for path in paths}
    wrong = []
    for path in paths:
        size, kind = len(flipped.content(path)), path.split("/")[2]
        for _ in range(STORE_FLIPS.get(kind, 10) if size else 0):
            at, mask = chance.randrange(size), 1 << chance.randrange(8)
            logged.clear()
            refused, state = await flipped.start_with(path, at, mask)
            if refused:
                assert path in refused, refused
                continue
            parts = [part for part in state if state[part] != flipped.expected[part]]
            is_reported = any(line.level in TROUBLE for line in logged)
            if parts and not (kind == "commitlog" and is_reported and loses_one_at_most(flipped.expected, state)):
                wrong.append((path, at, mask, parts))
    assert wrong == []


def loses_one_at_most(expected: State, state: State) -> bool:
    """Whether all that is there, or comes later, is what was there before, but for one message."""
    lost = 0
    for there, was in zip(state["offered later"], expected["offered later"], strict=True):
        assert len(set(there)) == len(there)
        assert set(there) <= set(was)
        lost += len(was) - len(there)
    return lost <= 1


async def test_a_flipped_bit_of_a_spill_makes_no_other_entry(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={**ON, "journal_events_max": 100}).open()
    await filled(shop, 500)
    await world.run_for(seconds=1)
    disk, chance = world.disk("broker-a"), Random(22)
    [name] = world.machine("broker-a").files.list_folder("/store/journal")
    path, expected = f"/store/journal/{name}", {one.number: one for one in await shop.admin.journal()}
    for _ in range(30):
        at, mask = chance.randrange(len(disk.files[path].content)), 1 << chance.randrange(8)
        disk.rot(path, at, mask)
        records = await shop.admin.journal()
        assert [one for one in records if one != expected.get(one.number, one)] == []
        assert len(records) >= 300
        disk.rot(path, at, mask)
    await shop.close()
