"""A server that may have no more file descriptors goes on with what it has, and accepts again when there are some."""

import asyncio
import errno
import os
import resource
import socket
import subprocess
import sys

import pytest

from staticfire.runtime.live.descriptors import (
    DESCRIPTORS_WANTED_MAX,
    KEPT_FOR_FILES_MAX,
    REPORT_EVERY_S,
    ShortageNotice,
    is_kept_for_files,
    kept_for_files,
)
from staticfire.runtime.live.listener import LiveListener

LOOPBACK = "127.0.0.1"


def test_a_quarter_of_a_small_limit_is_kept_and_no_more_than_files_need_of_a_large_one() -> None:
    assert kept_for_files(64) == 16
    assert kept_for_files(1 << 20) == KEPT_FOR_FILES_MAX
    assert not is_kept_for_files(47, 64)
    assert is_kept_for_files(48, 64)
    assert not is_kept_for_files(1 << 20, -1)


@pytest.mark.parametrize(
    ("soft", "hard", "now"), [(64, 512, 512), (64, 64, 64), (256, 200_000, DESCRIPTORS_WANTED_MAX)]
)
def test_a_server_raises_its_own_limit_as_far_as_it_may_and_needs(soft: int, hard: int, now: int) -> None:
    if hard > resource.getrlimit(resource.RLIMIT_NOFILE)[1]:
        pytest.skip("the hard limit of this machine is lower")
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from staticfire.runtime.live.descriptors import raise_limit\n"
        "print(*raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert reported.split() == [str(number) for number in (soft, now, now, hard)]


def test_a_thousand_refusals_are_one_line_that_counts_and_the_next_line_has_the_rest() -> None:
    reported: list[int] = []
    notice = ShortageNotice(lambda _words, count: reported.append(count))
    for _ in range(1_000):
        notice.refused("full", 1.0)
    notice.refused("full", 1.0 + REPORT_EVERY_S)
    assert reported == [1, 1_000]


class ShortOfDescriptors(socket.socket):
    """A listening socket of a process that has none left; with the spare one it can accept again, or not even then."""

    tries = 0
    is_helped = True
    is_short = True

    def accept(self) -> tuple[socket.socket, object]:
        self.tries += 1
        if self.is_short and (self.tries % 2 or not self.is_helped):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


class Guest(asyncio.Protocol):
    """Says that it was made."""

    def __init__(self, made: "asyncio.Future[asyncio.BaseTransport]") -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.set_result(transport)


async def refused(port: int) -> bool:
    """Connect; tell whether the other side closed at once."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True
    finally:
        writer.close()


async def test_who_comes_when_there_are_no_descriptors_is_turned_away_with_the_spare_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    sock = ShortOfDescriptors()
    sock.bind((LOOPBACK, 0))
    listener = LiveListener(lambda: pytest.fail("nobody is let in"), [sock])
    for _ in range(19):
        assert await refused(listener.port)
    assert sock.tries <= 4 * 19  # For each connection, at most one more accept(), which finds none.
    await listener.close()
    lines = capfd.readouterr().err
    assert lines.count("out_of_file_descriptors") == 1
    assert "ulimit -n" in lines
    assert "Traceback" not in lines


async def test_a_port_that_not_even_the_spare_one_helps_is_left_alone_for_a_while() -> None:
    sock = ShortOfDescriptors()
    sock.bind((LOOPBACK, 0))
    sock.is_helped = False
    made: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()
    listener = LiveListener(lambda: Guest(made), [sock])
    _reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
    for _ in range(50):
        await asyncio.sleep(0)
    assert sock.tries <= 2  # the port is readable all the time, and nobody looks
    sock.is_short = False
    (await made).close()
    writer.close()
    await listener.close()
