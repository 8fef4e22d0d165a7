"""Processes as their parent sees them, with real ones: ready, stopped, killed, failed."""

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import staticfire
from staticfire.runtime import spawning
from staticfire.runtime.children import Child, ChildFailed, ChildPlan, Children
from staticfire.runtime.ports import listen_on
from staticfire.runtime.spawning import (
    NAMESERVER_PROGRAM,
    EarlyStart,
    ForkedProcess,
    Started,
    child_environment,
    interpreter,
)

AnyProcess = subprocess.Popen[bytes] | ForkedProcess


def plan(name: str = "nameserver", **settings: str) -> ChildPlan:
    """Return the plan of a nameserver on a free port."""
    sock = listen_on("127.0.0.1", 0, "")
    return ChildPlan(name, "staticfire.nameserver", {"listenHost": "127.0.0.1", **settings}, sock)


@pytest.fixture
def children() -> Iterator[Children]:
    with open(os.devnull, "wb") as nowhere:
        started = Children(nowhere.fileno())
        yield started
        started.close()


def test_child_is_ready_and_stops_on_request(children: Children) -> None:
    child = children.spawn(plan())
    children.wait_ready([child])
    assert children.stop([child]) == []
    assert (child.exit_code, child.died) == (0, False)


def test_child_that_is_ready_when_its_time_is_over_is_ready(children: Children) -> None:
    child = children.spawn(plan())
    select.select([child.link], [], [])
    children.wait_ready([child], timeout_ms=0)
    assert child.ready


def test_child_that_has_ended_when_its_time_is_over_wasnt_killed(children: Children) -> None:
    child = children.spawn(plan())
    children.wait_ready([child])
    child.process.terminate()
    select.select([child.link], [], [])  # Its end.
    assert children.stop([child], timeout_ms=0) == []
    assert (child.exit_code, child.was_killed) == (0, False)


def test_child_that_is_signalled_twice_still_stops_in_order(children: Children) -> None:
    """systemd signals all processes of a service, and so does the parent. Only the parent kills in the end."""
    child = children.spawn(plan())
    children.wait_ready([child])
    os.kill(child.pid, signal.SIGTERM)
    os.kill(child.pid, signal.SIGINT)
    children.stop([child])
    assert child.exit_code == 0


def test_child_that_another_program_kills_is_reported() -> None:
    dead: list[Child] = []
    children = Children(subprocess.DEVNULL, on_death=dead.append)
    child = children.spawn(plan())
    children.wait_ready([child])

    os.kill(child.pid, signal.SIGKILL)
    children.pump(100)

    assert dead == [child]
    assert child.how_it_ended() == f"nameserver (pid {child.pid}) was killed by SIGKILL"
    children.close()


def test_child_that_another_program_kills_shortly_before_its_stop_is_reported() -> None:
    dead: list[Child] = []
    children = Children(subprocess.DEVNULL, on_death=dead.append)
    first, second = (children.spawn(plan()) for _ in range(2))
    children.wait_ready([first, second])

    os.kill(first.pid, signal.SIGKILL)
    assert children.stop([first]) == []
    children.kill(second)

    assert dead == [first]
    children.close()


def test_output_of_children_continues_without_its_reader() -> None:
    """A pipe behind our stderr that nobody reads: what doesn't fit is dropped and counted, and nobody waits."""
    reading, writing = os.pipe()
    children = Children(subprocess.DEVNULL, stderr=writing)
    for _ in range(20):
        children._pass_on(b"x" * 65_535 + b"\n")  # house: no child of ours writes so much at once
    assert children._stderr.dropped_lines > 0  # house: the pipe that could show it isn't read
    assert os.read(reading, 65_536)
    children.close()
    os.close(reading)
    os.close(writing)


def test_child_that_fails_before_it_is_ready_is_named_with_its_exit_code_and_last_line(
    children: Children, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    child = children.spawn(plan(folder=f"{file}/folder"))
    with pytest.raises(ChildFailed, match="ended with exit code 2 before it was ready"):
        children.wait_ready([child])
    assert child.last_lines[-1].startswith(f"staticfire nameserver: {file}/folder can't be used")


def test_child_that_cant_read_its_arguments_says_so(children: Children) -> None:
    child = children.spawn(plan(noSuchSetting="1"))
    with pytest.raises(ChildFailed, match="exit code 2"):
        children.wait_ready([child])
    assert "unknown setting noSuchSetting" in child.last_lines[-1]


def test_stopped_child_that_doesnt_react_is_killed(children: Children) -> None:
    child = children.spawn(plan())
    children.wait_ready([child])
    os.kill(child.pid, signal.SIGSTOP)
    assert children.stop([child], timeout_ms=0) == [child]
    assert child.exit_code == -signal.SIGKILL


def test_child_that_takes_too_long_is_named(children: Children) -> None:
    child = children.spawn(plan())
    with pytest.raises(ChildFailed, match="nameserver was not ready within 0 ms"):
        children.wait_ready([child], timeout_ms=0)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[AnyProcess]:
    """The processes that were started."""
    begun: list[AnyProcess] = []
    start = spawning.start_process

    def start_and_note(*arguments: Any) -> Started:
        started = start(*arguments)
        begun.append(started[0])
        return started

    monkeypatch.setattr(spawning, "start_process", start_and_note)
    return begun


@pytest.fixture
def early(begun: list[AnyProcess]) -> Iterator[EarlyStart]:
    started = EarlyStart([NAMESERVER_PROGRAM], subprocess.DEVNULL)
    yield started
    started.close()


def test_a_process_that_was_started_early_becomes_the_requested_program(early: EarlyStart) -> None:
    children = Children(subprocess.DEVNULL, early=early)
    first, second = plan("first"), plan("second")
    port = first.sock.getsockname()[1]
    started = [children.spawn(first), children.spawn(second)]
    children.wait_ready(started)
    socket.create_connection(("127.0.0.1", port)).close()
    commands = [Path(f"/proc/{child.pid}/cmdline").read_bytes() for child in started]
    assert [b"--early-fd" in command for command in commands] == [True, False]
    assert children.stop(started) == []
    assert [child.exit_code for child in started] == [0, 0]
    children.close()


def test_early_processes_that_are_not_needed_are_gone(early: EarlyStart, begun: list[AnyProcess]) -> None:
    early.close()
    assert [process.returncode for process in begun] == [-signal.SIGKILL]


def test_an_early_process_ends_with_its_parent(early: EarlyStart) -> None:
    taken = early.take(NAMESERVER_PROGRAM)
    assert taken is not None
    process, link = taken
    link.close()
    assert process.wait(100) == 0
    assert process.stderr is not None
    process.stderr.close()


def test_an_early_process_that_has_died_is_reported_as_any_other(early: EarlyStart, begun: list[AnyProcess]) -> None:
    begun[0].kill()
    begun[0].wait()
    children = Children(subprocess.DEVNULL, early=early)
    with pytest.raises(ChildFailed, match="was killed by SIGKILL before it was ready"):
        children.wait_ready([children.spawn(plan())])
    children.close()


def test_child_may_write_bytecode_even_where_its_parent_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in child_environment()


@pytest.mark.parametrize("name", ["queue", "enum", "_json"])
def test_file_of_the_user_with_the_name_of_a_module_of_python_stops_no_child(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, children: Children
) -> None:
    """pytest puts the folder of the tests in front, and their author needn't know our imports."""
    (tmp_path / f"{name}.py").write_text("raise ImportError('this is of the user')")
    (tmp_path / "of_the_user.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    command = [*interpreter(), "-c", f"import {name}, of_the_user, staticfire.runtime.spawning"]
    subprocess.run(command, env=child_environment(), check=True)
    children.wait_ready([children.spawn(plan())])


def test_package_beside_ours_with_the_name_of_a_module_of_python_stops_no_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the backports of `enum` and `typing` in old virtual environments."""
    (tmp_path / "enum.py").write_text("raise ImportError('this is of an old package')")
    (tmp_path / "staticfire").symlink_to(staticfire.__path__[0])
    monkeypatch.setattr(staticfire, "__path__", [str(tmp_path / "staticfire")])
    subprocess.run([*interpreter(), "-c", "import enum, staticfire"], env=child_environment(), check=True)
