"""Servers of one cluster that import together, and are processes like all others."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.runtime import spawning
from staticfire.runtime.children import ChildPlan, Children
from staticfire.runtime.spawning import BROKER_PROGRAM, NAMESERVER_PROGRAM, EarlyStart, ForkedProcess, can_fork
from tests.runtime.test_children import AnyProcess, begun, plan

__all__ = ["begun"]

pytestmark = pytest.mark.skipif(not can_fork(), reason="servers import together only on Linux, with compiled parts")


@pytest.fixture
def early(begun: list[AnyProcess]) -> Iterator[EarlyStart]:
    started = EarlyStart([BROKER_PROGRAM, NAMESERVER_PROGRAM, NAMESERVER_PROGRAM], subprocess.DEVNULL)
    yield started
    started.close()


def broker_plan(folder: Path) -> ChildPlan:
    sock = socket.create_server(("127.0.0.1", 0))
    return ChildPlan("broker-a", BROKER_PROGRAM, {"store_path_root_dir": str(folder), "listen_host": "127.0.0.1"}, sock)


def test_a_forked_server_is_our_child_with_its_own_name_group_and_exit_code(early: EarlyStart, tmp_path: Path) -> None:
    children = Children(subprocess.DEVNULL, early=early)
    wanted = [plan("first"), plan("second"), broker_plan(tmp_path)]
    ports = [one.sock.getsockname()[1] for one in wanted]
    started = [children.spawn(one) for one in wanted]
    children.wait_ready(started)
    for port in ports:
        socket.create_connection(("127.0.0.1", port)).close()
    assert [type(child.process) for child in started] == [ForkedProcess, ForkedProcess, subprocess.Popen]
    commands = [Path(f"/proc/{child.pid}/cmdline").read_text().split("\0")[:5] for child in started]
    assert [command[4] for command in commands] == [NAMESERVER_PROGRAM, NAMESERVER_PROGRAM, BROKER_PROGRAM]
    assert [os.getpgid(child.pid) for child in started] == [child.pid for child in started]
    assert [parent_of(child.pid) for child in started] == [os.getpid()] * 3
    children.kill(started[0])
    assert children.stop(started[1:]) == []
    assert [child.exit_code for child in started] == [-signal.SIGKILL, 0, 0]
    children.close()


def test_a_forked_server_holds_no_descriptor_of_the_others(early: EarlyStart) -> None:
    children = Children(subprocess.DEVNULL, early=early)
    child = children.spawn(plan())
    children.wait_ready([child])
    opened = [path.readlink() for path in Path(f"/proc/{child.pid}/fd").iterdir()]
    # Its standard error; the link, the listening socket, and the two ends of its event loop's own pair.
    assert [str(path).partition(":")[0] for path in opened].count("pipe") == 1
    assert [str(path).partition(":")[0] for path in opened].count("socket") <= 4
    children.stop([child])
    children.close()


def test_a_forked_server_ends_with_its_parent(early: EarlyStart) -> None:
    taken = early.take(NAMESERVER_PROGRAM)
    assert taken is not None
    process, link = taken
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    link.close()
    assert process.wait(100) == process.wait() == process.poll() == 0
    process.kill()  # No effect: its process id may belong to another process by now.
    assert process.stderr is not None
    process.stderr.close()


def test_what_a_forked_server_writes_to_stderr_is_its_own(early: EarlyStart, tmp_path: Path) -> None:
    children = Children(subprocess.DEVNULL, stderr=os.open(tmp_path / "errors", os.O_CREAT | os.O_WRONLY), early=early)
    child = children.spawn(plan(noSuchSetting="1"))
    while child.exit_code is None:
        children.pump(1)
    assert child.exit_code == 2
    assert child.last_lines
    assert child.last_lines[-1].startswith("staticfire nameserver: ")
    children.close()


def test_forked_servers_that_were_not_used_are_gone() -> None:
    started = EarlyStart([BROKER_PROGRAM, NAMESERVER_PROGRAM], subprocess.DEVNULL)
    awaited = started._awaited[0][1]  # house: a process that is forked, but isn't known yet, can't be caught in time
    process = awaited.process()
    assert process is not None
    started._awaited.clear()  # house: as above
    started._waiting.append((NAMESERVER_PROGRAM, (process, awaited.link)))  # house: as above
    started.close()
    assert process.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_server_that_could_not_be_forked_is_started_alone(early: EarlyStart, begun: list[AnyProcess]) -> None:
    (first,) = begun
    os.kill(first.pid, signal.SIGKILL)  # It has just begun to import.
    first.wait()
    children = Children(subprocess.DEVNULL, early=early)
    child = children.spawn(plan())
    children.wait_ready([child])
    assert type(child.process) is subprocess.Popen
    assert children.stop([child]) == []
    children.close()


def test_without_compiled_parts_each_server_starts_alone(
    begun: list[AnyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawning, "can_fork", lambda: False)
    started = EarlyStart([BROKER_PROGRAM, NAMESERVER_PROGRAM], subprocess.DEVNULL)
    assert [type(process) for process in begun] == [subprocess.Popen, subprocess.Popen]
    started.close()


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])
