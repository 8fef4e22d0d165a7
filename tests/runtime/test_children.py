"""Processes as their parent sees them, with real ones: ready, stopped, killed, failed."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.runtime.children import Child, ChildFailed, ChildPlan, Children, child_environment
from staticfire.runtime.ports import listen_on


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


def test_child_is_ready_and_stops_when_asked(children: Children) -> None:
    child = children.spawn(plan())
    children.wait_ready([child])
    assert children.stop([child]) == []
    assert (child.exit_code, child.died) == (0, False)


def test_child_that_is_signalled_twice_still_stops_in_order(children: Children) -> None:
    """As by systemd, which signals all processes of a service, and by us. Who has no patience is the parent."""
    child = children.spawn(plan())
    children.wait_ready([child])
    os.kill(child.pid, signal.SIGTERM)
    os.kill(child.pid, signal.SIGINT)
    children.stop([child])
    assert child.exit_code == 0


def test_child_that_is_killed_by_somebody_is_told() -> None:
    dead: list[Child] = []
    children = Children(subprocess.DEVNULL, on_death=dead.append)
    child = children.spawn(plan())
    children.wait_ready([child])

    os.kill(child.pid, signal.SIGKILL)
    children.pump(30)

    assert dead == [child]
    assert child.how_it_ended() == f"nameserver (pid {child.pid}) was killed by SIGKILL"
    children.close()


def test_what_children_write_goes_on_without_who_should_read_it() -> None:
    """A pipe behind our stderr that nobody reads: what doesn't fit is dropped and counted, and nobody waits."""
    reading, writing = os.pipe()
    children = Children(subprocess.DEVNULL, stderr=writing)
    for _ in range(20):
        children._pass_on(b"x" * 65_535 + b"\n")
    assert children._stderr.dropped_lines > 0
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
    assert children.stop([child], timeout_ms=1) == [child]
    assert child.exit_code == -signal.SIGKILL


def test_child_that_takes_too_long_is_named(children: Children) -> None:
    child = children.spawn(plan())
    with pytest.raises(ChildFailed, match="nameserver was not ready within 0 ms"):
        children.wait_ready([child], timeout_ms=0)


def test_child_may_write_bytecode_even_where_its_parent_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in child_environment()
