"""Logging neither raises nor waits, whatever stands behind stderr."""

import os
import subprocess
import sys

import pytest

from staticfire.runtime.log_sink import BUFFER_BYTES_MAX, LogSink

LINE = "x" * 999 + "\n"
PIPE_BYTES = 65_536


def log(sink: LogSink, lines: int) -> None:
    for _ in range(lines):
        sink.write(LINE[:-1])
        sink.write("\n")
        sink.flush()


def test_lines_leave_at_once_when_they_are_taken() -> None:
    reading, writing = os.pipe()
    log(LogSink(writing), 3)
    assert os.read(reading, 65_536).decode() == LINE * 3
    os.close(reading)
    os.close(writing)


def test_a_pipe_without_a_reader_stops_no_process_and_dropped_lines_are_counted() -> None:
    reading, writing = os.pipe()
    sink = LogSink(writing)
    log(sink, 2_000)
    assert sink.dropped_lines > 1_000
    assert (2_000 - sink.dropped_lines) * len(LINE) <= BUFFER_BYTES_MAX + PIPE_BYTES
    read = b""
    for _ in range(20):
        read += os.read(reading, 65_536)
        log(sink, 1)
    assert b"event=lines_dropped lines=" in read
    assert sink.dropped_lines == 0
    assert all(len(line) == 999 or b"lines_dropped" in line for line in read.splitlines()[:-1])
    os.close(reading)
    os.close(writing)


def test_no_reader_behind_stderr_is_no_error() -> None:
    reading, writing = os.pipe()
    sink = LogSink(writing)
    os.close(reading)
    log(sink, 10)  # EPIPE
    os.close(writing)
    log(sink, 10)  # EBADF
    full = os.open("/dev/full", os.O_WRONLY)
    log(LogSink(full), 10)  # ENOSPC
    os.close(full)


def test_a_program_that_logs_into_a_pipe_without_a_reader_ends_by_itself() -> None:
    program = (
        "from staticfire.runtime.log import logger\n"
        "for _ in range(5000): logger('broker').error('broken', text='x' * 500)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert process.wait(100) == 0


SAYING = """
import os, sys
from staticfire.runtime.log_sink import say
filler = int(sys.argv[1])
if filler:
    os.set_blocking(1, False)
    os.write(1, b"." * filler)
    os.set_blocking(1, True)
say("ready")
os.write(2, b"said\\n")
sys.stdin.read()
"""


@pytest.mark.parametrize("filler", [0, 65_536], ids=["empty", "full"])
def test_a_line_for_stdout_waits_for_no_reader_and_comes_when_there_is_one(filler: int) -> None:
    program = [sys.executable, "-c", SAYING, str(filler)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == b"said\n"
        assert process.stdout.read(filler + 6).endswith(b"ready\n")


@pytest.mark.parametrize("stdout", [">&-", "| true"])
def test_a_line_for_a_closed_stdout_is_no_error(stdout: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" 0 {stdout}', sys.executable, SAYING],
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"said\n")


@pytest.mark.parametrize(("level", "printed"), [("critical", 0), ("warning", 2)])
def test_a_level_prints_what_is_as_bad_or_worse(level: str, printed: int) -> None:
    program = (
        "from staticfire.runtime.log import logger\n"
        "log = logger('broker')\n"
        "log.debug('one'), log.info('two'), log.warning('three'), log.error('four')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env={**os.environ, "STATICFIRE_LOG_LEVEL": level},
    )
    assert len(done.stderr.splitlines()) == printed
