"""`staticfire send` while it reads standard input, and a signal arrives: it ends, and says what it has sent."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from staticfire import Cluster, MessageQueue, PullConsumer
from tests.cli.commands import TIMEOUT_S, command, environment

QUEUE = MessageQueue("lines", "broker-a", 0)
Write = Callable[[bytes], object]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic(QUEUE.topic, queues=1)
        yield cluster


def until_stored(cluster: Cluster, number: int) -> None:
    """Wait until the queue has this many messages."""
    with PullConsumer("reader", cluster.namesrv) as reader:
        at = 0
        while at < number:
            at = reader.pull(QUEUE, at, wait_ms=10_000).next_offset


def a_pipe() -> tuple[int, Write, Callable[[], None]]:
    reading, writing = os.pipe()

    def close() -> None:
        os.close(writing)

    return reading, lambda data: os.write(writing, data), close


def a_terminal() -> tuple[int, Write, Callable[[], None]]:
    own, theirs = pty.openpty()

    def close() -> None:
        os.close(own)

    return theirs, lambda data: os.write(own, data), close


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("make", [a_pipe, a_terminal])
def test_a_signal_ends_the_input_and_the_total_is_printed(
    cluster: Cluster, make: Callable[[], tuple[int, Write, Callable[[], None]]], number: signal.Signals
) -> None:
    given, write, close = make()
    line = command("send", QUEUE.topic, "-n", cluster.namesrv)
    with subprocess.Popen(
        line, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            os.close(given)
            write(b"one\ntwo\n")
            until_stored(cluster, 2)
            write(b"three\nno line yet") if make is a_pipe else write(b"three\n")
            until_stored(cluster, 3)
            process.send_signal(number)
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
            close()
    assert (process.returncode, out, err) == (128 + number, "sent 3 messages\n", "")


def test_a_signal_ends_a_message_that_is_repeated_for_ever(cluster: Cluster) -> None:
    line = command("send", QUEUE.topic, "x", "--count", "1000000000", "-n", cluster.namesrv)
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            until_stored(cluster, 1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    with PullConsumer("reader", cluster.namesrv) as reader:
        stored = reader.max_offset(QUEUE)
    assert (process.returncode, out, err) == (130, f"sent {stored} messages\n", "")
