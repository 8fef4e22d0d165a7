"""The Java programs of this check: mqadmin itself, and a producer and a consumer for it to look at."""

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

HERE = Path(__file__).resolve().parent
ORACLE = HERE.parents[1] / "tools" / "oracle.sh"
CALL_TIMEOUT_S = 60
MEMBER_TIMEOUT_S = 30
FLAGS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
# One command is over before better code is worth its making.


def java(source: str, *arguments: str, folder: str, namesrv: str) -> list[str]:
    """Return the command line of a program of this folder."""
    classpath = subprocess.run(["bash", str(ORACLE), "classpath"], stdout=subprocess.PIPE, text=True, check=True).stdout
    settings = [
        f"-Drocketmq.home.dir={folder}",
        f"-Drocketmq.namesrv.addr={namesrv}",
        f"-Djava.io.tmpdir={folder}",
    ]
    return ["java", *FLAGS, *settings, "-cp", classpath.strip(), str(HERE / source), *arguments]


class Admin:
    """mqadmin, ready for the next command. Some commands write files: they land in the folder."""

    def __init__(self, namesrv: str, folder: str) -> None:
        self._command = java("Admin.java", folder=folder, namesrv=namesrv)
        self._folder = folder
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command, cwd=self._folder, stdin=pipe, stdout=pipe)

    def run(self, arguments: list[str]) -> str:
        """Run a command; return all that it says. What ends the Java machine, or takes too long, is trouble."""
        if self._process.poll() is not None:
            self._process = self._started()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(CALL_TIMEOUT_S, process.kill)
        timer.start()
        try:
            process.stdin.write(" ".join(arguments).encode() + b"\n")
            process.stdin.flush()
            size = int.from_bytes(_exactly(process.stdout, 4), "big")
            return _exactly(process.stdout, size).decode("utf-8", "replace")
        except (EOFError, BrokenPipeError):
            return f"Exception: mqadmin ended, or was ended after {CALL_TIMEOUT_S} s"
        finally:
            timer.cancel()

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes, too


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


class Sent(NamedTuple):
    """Where a message is, as its Java producer knows it."""

    unique_id: str
    offset_id: str
    holder: str
    queue_id: str
    queue_offset: str


@contextmanager
def members(namesrv: str, folder: str, names: Sequence[str], messages: int) -> Iterator[Sent]:
    """Let a producer and a consumer of RocketMQ's own live; yield where the first message is.

    `names`: of topic, producer group, consumer group. All messages have been consumed then, and the group's offsets
    are on their way.
    """
    command = java("Member.java", namesrv, *names, str(messages), folder=folder, namesrv=namesrv)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            reported: list[Sent] = []
            for line in process.stdout:
                if line.startswith("sent "):
                    reported.append(Sent(*line.split()[1:]))
                elif line.startswith("consumed"):
                    break
            else:
                raise SystemExit("mqadmin: a Java producer and consumer ended too early")
            yield reported[0]
            process.stdin.close()
            process.wait(MEMBER_TIMEOUT_S)
        finally:
            process.kill()
