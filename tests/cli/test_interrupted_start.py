"""A cluster of processes whose start is interrupted: nothing of it is left."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.launch.processes import ProcessCluster


class StartedMeanwhile:
    """Interrupts the caller as soon as the start of the processes has begun, and notes what was started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], object]) -> None:
        self.pids: list[int] = []
        self.folders: list[Path] = []
        start = ProcessCluster.start

        def interrupted(cluster: ProcessCluster, later: Sequence[str] = ()) -> None:
            interrupt()
            start(cluster, later)
            self.pids += cluster.pids.values()
            self.folders.append(Path(cluster.folder.path))

        monkeypatch.setattr(ProcessCluster, "start", interrupted)

    def check_nothing_is_left(self, processes: int) -> None:
        assert len(self.pids) == processes
        assert [pid for pid in self.pids if is_running(pid)] == []
        assert [folder for folder in self.folders if folder.exists()] == []


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("replicas", "failover"), [(0, "manual"), (1, "auto")])
def test_ctrl_c_during_the_start_leaves_no_process(
    replicas: int, failover: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = threading.get_ident()
    started = StartedMeanwhile(monkeypatch, lambda: signal.pthread_kill(caller, signal.SIGINT))
    cluster = Cluster(isolation="process", replicas=replicas, failover=failover)
    with pytest.raises(KeyboardInterrupt), cluster:
        raise AssertionError("the cluster has started")
    started.check_nothing_is_left(processes=2 + replicas)


async def test_cancelled_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, ours = asyncio.get_running_loop(), asyncio.current_task()
    assert ours is not None
    started = StartedMeanwhile(monkeypatch, lambda: loop.call_soon_threadsafe(ours.cancel))
    with pytest.raises(asyncio.CancelledError):
        async with Cluster(isolation="process"):
            raise AssertionError("the cluster has started")
    ours.uncancel()
    started.check_nothing_is_left(processes=2)
