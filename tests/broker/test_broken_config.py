"""Configuration files with numbers and types that don't belong there: left out, or refused in words at the start."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.queue import DelayQueue
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.outcomes import Entry
from staticfire.broker.store.state_files import StateFiles
from staticfire.broker.topics import TopicTable
from staticfire.protocol.errors import StorageError
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.times import MessageMs
from staticfire.runtime.live import live_machine


def ignore(*_: object) -> None:
    """Hear of a commit."""


def test_offsets_beyond_64_bits_that_were_saved_once_are_left_out_and_the_others_are_there() -> None:
    table = OffsetTable(ignore)
    queues = {"0": 7, "1": 2**63, "2": -(2**63) - 1, "3": 10**40, "4": INT64_MAX}
    table.restore(json.dumps({"offsetTable": {"orders@billing": queues}}).encode())
    assert table.queues_of("billing", "orders") == {0: 7, 4: INT64_MAX}
    assert sorted(table.left_out) == [f"orders@billing queue {queue_id}" for queue_id in (1, 2, 3)]


async def nothing() -> None:
    """Sync a log that there isn't."""


def topics() -> TopicTable:
    return TopicTable(BrokerSettings(), lambda: MessageMs(0))


def groups() -> GroupTable:
    return GroupTable(BrokerSettings(), lambda: MessageMs(0), ignore)


class NoEntries:
    """Levels without messages."""

    def end(self, level: int) -> int:
        return 0

    def bounds(self, level: int) -> tuple[int, int]:
        return 0, 0

    def entries(self, level: int, offset: int, count: int) -> Sequence[Entry]:
        return ()

    def head(self, level: int, offset: int) -> Entry | None:
        return None


def delays() -> DelayQueue:
    return DelayQueue([1_000, 5_000], NoEntries())


def offsets() -> OffsetTable:
    return OffsetTable(ignore)


DEEP, DIGITS = b"[" * 100_000, b"9" * 10_000
ANYWHERE = [b"", b"{", b"{}", b"[]", b"null", b"7", b"\xff", b"\0" * 512, b'{"unknown":' + DEEP]
# What no file of state can be. One without its table would be an empty one: everything lost without a word.
WRONG = {
    topics: [
        b'{"topicConfigTable":[]}',
        b'{"topicConfigTable":{"orders":null}}',
        b'{"topicConfigTable":{"orders":{}}}',
        b'{"topicConfigTable":{"orders":{"topicName":"bills"}}}',
        b'{"topicConfigTable":{"orders":{"topicName":"orders","readQueueNums":"4"}}}',
        b'{"topicConfigTable":{"orders":{"topicName":"orders","readQueueNums":65537}}}',
        b'{"topicConfigTable":{"orders":{"topicName":"orders","perm":2147483648}}}',
        b'{"topicConfigTable":{"orders":{"topicName":"orders","perm":' + DIGITS + b"}}}",
        b'{"topicConfigTable":{},"dataVersion":{"counter":-9223372036854775809}}',
    ],
    groups: [
        b'{"subscriptionGroupTable":{"billing":{"retryQueueNums":1}}}',
        b'{"subscriptionGroupTable":{"billing":{"groupName":"ledger"}}}',
        b'{"subscriptionGroupTable":{"billing":{"groupName":"billing","retryQueueNums":65537}}}',
        b'{"subscriptionGroupTable":{"billing":{"groupName":"billing","retryMaxTimes":1.5}}}',
        b'{"subscriptionGroupTable":{},"forbiddenTable":{"billing":{"orders":9223372036854775808}}}',
    ],
    offsets: [
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"orders":{"0":7}}}',
        b'{"offsetTable":{"orders@billing":{"0":"seven"}}}',
        b'{"offsetTable":{"orders@billing":{"x":7}}}',
        b'{"offsetTable":{"orders@billing":{"2147483648":7}}}',
        b'{"offsetTable":{"orders@billing":{"0":' + DIGITS + b"}}}",
        b'{"offsetTable":{"\xff":{}}}',
        b'{"offsetTable":{},"logPosition":-1}',
        b'{"offsetTable":{},"logPosition":9223372036854775808}',
    ],
    delays: [
        b'{"offsetTable":{"1":-1}}',
        b'{"offsetTable":{"1":9223372036854775808}}',
        b'{"offsetTable":{"0":1}}',
        b'{"offsetTable":{"-1":1}}',
        b'{"offsetTable":{"65537":1}}',
        b'{"offsetTable":{"one":1}}',
        b'{"offsetTable":{"1":1.5}}',
        b'{"offsetTable":{},"logPosition":-1}',
        b'{"offsetTable":{},"logPosition":' + DIGITS + b"}",
    ],
}


@pytest.mark.parametrize(
    ("table", "data"),
    [(table, data) for table, wrong in WRONG.items() for data in ANYWHERE + wrong],
    ids=lambda value: value.__name__ if callable(value) else str(value[:90]),
)
def test_a_file_that_cant_be_read_is_named_with_the_way_out(
    table: Callable[[], Any], data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "some.json").write_bytes(data)
    files = ConfigFiles(live_machine(), str(tmp_path), nothing)
    with pytest.raises(StorageError, match=r"some\.json can't be read: .*move it away") as refused:
        files.restore("some.json", bytes, table().restore)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("table", list(WRONG), ids=lambda table: table.__name__)
def test_what_was_saved_is_read(table: Callable[[], Any]) -> None:
    saved = table().snapshot(0) if table in (offsets, delays) else table().snapshot()
    table().restore(saved)


CLOCKS = [
    b'{"epoch":1,"mode":"sideways","rate":1.0,"baseMs":1,"baseWallMs":1}',
    b'{"epoch":1,"mode":"scaled","rate":1e300,"baseMs":1,"baseWallMs":1}',
    b'{"epoch":1,"mode":"scaled","rate":-1,"baseMs":1,"baseWallMs":1}',
    b'{"epoch":1,"mode":"frozen","rate":0.0,"baseMs":9223372036854775808,"baseWallMs":1}',
    b'{"epoch":1,"mode":"frozen","rate":0.0,"baseMs":-1,"baseWallMs":1}',
    b'{"epoch":-1,"mode":"real"}',
]


@pytest.mark.parametrize("data", [bad for bad in ANYWHERE if bad != b"{}"] + CLOCKS, ids=lambda data: str(data[:90]))
def test_a_clock_that_shows_no_time_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "clock.json").write_bytes(data)
    machine = live_machine()
    with pytest.raises(StorageError, match=r"clock\.json can't be read: .*move it away and start with the wall clock"):
        MessageClock(machine.clock, machine.files, f"{tmp_path}/clock.json").restore()


CHECKPOINTS = [b"[-1,0,0]", b"[0,9223372036854775808,0]", b"[0,0,1000000000000000000000]", b"[0,0,0,-2]", b'["0",0,0]']


@pytest.mark.parametrize(
    "data", [bad for bad in ANYWHERE if bad != b"[]"] + CHECKPOINTS, ids=lambda data: str(data[:90])
)
def test_a_checkpoint_that_cant_be_is_none(data: bytes, tmp_path: Path) -> None:
    """Everything is rebuilt then from the log."""
    (tmp_path / "checkpoint").write_bytes(data)
    assert StateFiles(live_machine().files, str(tmp_path)).read_checkpoint() is None


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"orders":-1}', b'{"orders":9223372036854775808}', DEEP])
def test_deletions_that_cant_be_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "deletedTopics").write_bytes(data)
    with pytest.raises(StorageError, match=r"deletedTopics can't be read .*repair it, or remove it"):
        StateFiles(live_machine().files, str(tmp_path)).read_deleted_topics()
