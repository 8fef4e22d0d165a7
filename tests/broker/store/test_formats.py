"""A folder of each format that ever was: older ones go on, newer ones and RocketMQ's are refused and left alone.

formats/ has them, each written by the version of its time: topic orders with two queues of ten messages, one message
that waits for two hours, and the group billing at offset 4 of queue 0.
"""

import shutil
from pathlib import Path

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.formats import FORMAT
from staticfire.broker.store.sealed import seal
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import decode_record
from staticfire.runtime.live import live_machine

FOLDERS = Path(__file__).parent / "formats"

pytestmark = pytest.mark.row("S8")


def broker_of(folder: Path) -> Broker:
    settings = BrokerSettings(
        store_path_root_dir=str(folder), listen_port=0, vip_port_enable=False, mapped_file_size_commit_log=65536
    )
    return Broker(live_machine(), settings)


def all_files(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file() and one.name != "lock"}


def test_there_is_a_folder_of_each_format() -> None:
    assert [int(one.name) for one in sorted(FOLDERS.iterdir())] == list(range(1, FORMAT + 1))


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
async def test_what_an_older_version_left_continues(tmp_path: Path, number: int) -> None:
    folder = Path(shutil.copytree(FOLDERS / str(number), tmp_path / "store"))
    for _ in range(2):
        async with broker_of(folder) as broker:
            state, groups = broker.state, broker.tables.groups
            queues = [state.store.queue("orders", queue_id) for queue_id in range(2)]
            waiting = sum(broker.delays.queue.waiting().values())  # None, when its two hours are over.
            assert [queues[0].max_offset + waiting, queues[1].max_offset] == [11, 10]
            found = state.store.read(queues[1], 0, 32)
            records = [decode_record(each) for each in state.store.records(found)]
            assert [record.body for record in records] == [b"order %d" % each for each in range(1, 20, 2)]
            assert groups.offsets.committed("billing", "orders", 0) == 4
            assert groups.configs.get("billing") is not None
        assert f",{FORMAT}]".encode() in (folder / "checkpoint").read_bytes() or number < FORMAT


@pytest.mark.parametrize(
    ("name", "words"),
    [("checkpoint", f"has format 99, but this version supports up to {FORMAT}"), ("commitlog", "is Apache RocketMQ's")],
)
async def test_what_isnt_ours_is_refused_and_left_alone(tmp_path: Path, name: str, words: str) -> None:
    folder = Path(shutil.copytree(FOLDERS / str(FORMAT), tmp_path / "store"))
    if name == "checkpoint":
        (folder / name).write_bytes(seal(b"[5387,5387,1795375896990,5100,300000,0,5387,99,[1,2]]"))
    else:
        segment = folder / name / f"{0:020}"
        segment.write_bytes(b"\x00\x00\x00\x99\xda\xa3\x20\xa7" + segment.read_bytes()[8:])
    before = all_files(folder)
    with pytest.raises(StorageError, match=words):
        async with broker_of(folder):
            pass
    assert all_files(folder) == before
