"""Signals that come before an event loop takes them, even where Python drops the exception that they raise."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from staticfire.cli.stand import Stand, StopAsked, signals_raise, stop_signals
from staticfire.cli.stay import until_exit, until_stopped
from staticfire.processes import ProcessCluster
from staticfire.runtime.ports import listen_on


@pytest.fixture
def stand() -> Iterator[Stand]:
    """A stand of which nothing was started."""
    before = {number: signal.getsignal(number) for number in stop_signals()}
    cluster = ProcessCluster.prepare(namesrv_port=0, broker_port=0)
    with listen_on("127.0.0.1", 0, "") as sock:
        yield Stand(cluster, sock, asked=[])
    cluster.stop()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signal_is_noted_before_it_is_raised(stand: Stand) -> None:
    signals_raise(stand.asked)
    with pytest.raises(StopAsked):
        signal.raise_signal(signal.SIGTERM)
    assert stand.asked == [signal.SIGTERM]


async def test_up_ends_at_once_when_a_stop_was_asked_for_before(stand: Stand) -> None:
    stand.asked.append(signal.SIGTERM)
    assert await asyncio.wait_for(until_stopped(stand), 30) == 0


@pytest.fixture
def command() -> Iterator["subprocess.Popen[bytes]"]:
    """A command of `run` that ends by a signal only."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process
        process.kill()


async def test_run_passes_on_what_came_before(stand: Stand, command: "subprocess.Popen[bytes]") -> None:
    stand.asked.append(signal.SIGTERM)
    assert await asyncio.wait_for(until_exit(stand, command), 30) == 128 + signal.SIGTERM
