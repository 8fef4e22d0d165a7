"""Finds the program that has a port of this machine, for the error of the program that wanted it. Linux only.

/proc/net/tcp lists listening sockets with their inodes; /proc/PID/fd shows which process has which socket. The process
that serves a port of a cluster is a child of the `staticfire up` that a user has started, and must stop.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
LISTENING = "0A"
OUR_COMMANDS = ("up", "run", "nameserver", "broker", "proxy")


def words_for_holder(port: int) -> str:
    """Return which program has a port, such as "another `staticfire up` (pid 123) has it"; "" if that is unknown."""
    try:
        return _words(port)
    except OSError:  # There is no /proc, or the process ended meanwhile.
        return ""


def _words(port: int) -> str:
    inodes = set(_inodes(port))
    holders = sorted(pid for pid in _pids() if pid != os.getpid() and inodes & _sockets(pid)) if inodes else []
    for holder in holders:
        for pid in (holder, _parent(holder)):
            if (name := _program(pid)).startswith("staticfire "):
                return f"another `{name}` (pid {pid}) has it"
    return f"{_program(holders[0])} (pid {holders[0]}) has it" if holders else ""


def _inodes(port: int) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        for line in (PROC / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _pids() -> list[int]:
    return [int(one.name) for one in PROC.iterdir() if one.name.isdecimal()]


def _sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets; none if it has ended, or belongs to another user."""
    found = set()
    try:
        for one in (PROC / str(pid) / "fd").iterdir():
            match = re.fullmatch(r"socket:\[(\d+)\]", str(one.readlink()))
            if match is not None:
                found.add(match[1])
    except OSError:
        pass
    return found


def _parent(pid: int) -> int:
    match = re.search(r"^PPid:\s*(\d+)", (PROC / str(pid) / "status").read_text(), re.MULTILINE)
    return int(match[1]) if match is not None else pid


def _program(pid: int) -> str:
    """Return the name of a process as users know it: `staticfire up`, or the name of the program."""
    words = [os.fsdecode(one) for one in (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")]
    start = next((number for number, word in enumerate(words[:3]) if Path(word).name == "staticfire"), None)
    command = next((word for word in words[start + 1 :] if word in OUR_COMMANDS), "") if start is not None else ""
    if command:
        return f"staticfire {command}"
    return Path(words[0]).name or "a program"
