"""The disk of a broker process is full, and then it isn't."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.codes import RequestCode, ResponseCode
from tests.integration.fuzzing import ask, places_of
from tests.integration.stand import Sender, connected, read_topic

DISK_BYTES = 12 * 1024 * 1024
SEGMENT_BYTES = 1024 * 1024
BODY_BYTES = 8 * 1024

Shortage = Callable[[Cluster, Path], AbstractContextManager[None]]


@contextmanager
def file_size_limit(cluster: Cluster, size: int) -> Iterator[None]:
    pid = places_of(cluster)["broker-a"]["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def small_files(cluster: Cluster, folder: Path) -> AbstractContextManager[None]:
    """The system lets the broker's files not grow: no new segment, and nothing behind that size in the old one."""
    return file_size_limit(cluster, SEGMENT_BYTES // 2)


@contextmanager
def ballast(cluster: Cluster, folder: Path) -> Iterator[None]:
    """A file of somebody else takes all the room but a little."""
    path = folder / "ballast"
    room = os.statvfs(folder)
    with path.open("wb") as file:
        file.write(b"\0" * (room.f_bavail * room.f_frsize - 300 * 1024))
    yield
    path.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "staticfire-test", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


async def check(cluster: Cluster, folder: Path, shortage: Shortage) -> None:
    """Send before, during and after a shortage; what was acknowledged is there, what was refused isn't."""
    broker = cluster.broker("broker-a")
    sender = Sender("disk", "orders", BODY_BYTES)
    async with connected(broker.address, NATIVE) as connection, connected(broker.address, JSON) as foreign:
        await sender.send_window(connection, 8)
        with shortage(cluster, folder):
            refused: set[int] = set()
            while not refused:
                await sender.send_window(connection, 16)
                refused = set(sender.codes) - {ResponseCode.SUCCESS}
            await sender.send_window(foreign, 16)
            during = sender.codes.copy()
            # It still hands out what it has.
            assert set((await asyncio.to_thread(read_topic, cluster, "orders")).bodies) == sender.acknowledged
        assert set(during) == {ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE}
        await sender.send_window(connection, 16)
        await sender.send_window(foreign, 16)
        assert sender.codes[ResponseCode.SUCCESS] == during[ResponseCode.SUCCESS] + 32
    stored = await asyncio.to_thread(read_topic, cluster, "orders")
    assert sorted(stored.bodies) == sorted(sender.acknowledged)
    await asyncio.to_thread(broker.kill)
    await asyncio.to_thread(broker.restart)
    stored = await asyncio.to_thread(read_topic, cluster, "orders")
    assert sorted(stored.bodies) == sorted(sender.acknowledged)
    assert cluster.deaths == []


SETTINGS = {"mappedFileSizeCommitLog": SEGMENT_BYTES}


@pytest.mark.row("F4")
async def test_files_that_can_not_grow_refuse_sends_until_they_can() -> None:
    with Cluster(isolation="process", settings=SETTINGS) as cluster:
        await check(cluster, Path(cluster.directory), small_files)


@pytest.mark.row("F4")
async def test_a_full_disk_refuses_sends_until_there_is_room(small_disk: Path) -> None:
    with Cluster(isolation="process", settings=SETTINGS, directory=str(small_disk / "data")) as cluster:
        await check(cluster, small_disk, ballast)


def test_a_topic_that_can_not_be_saved_is_refused_and_saved_when_there_is_room() -> None:
    topic = {"topic": "made", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    with Cluster(isolation="process") as cluster:
        broker = cluster.broker("broker-a")
        with file_size_limit(cluster, 64):
            code, _ = ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
            assert code == ResponseCode.SERVICE_NOT_AVAILABLE
        code, _ = ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, {**topic, "readQueueNums": 4})
        assert code == 0
        broker.kill()
        broker.restart()
        assert b'"readQueueNums":4' in ask(broker.address, RequestCode.GET_TOPIC_CONFIG, {"topic": "made"})[1]
