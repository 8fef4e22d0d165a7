"""The inbox of signals, and what the event loops of `up` and `run` do with those that came before them, or while they
wait for a process.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator

import pytest

from staticfire import cli
from staticfire.cli.stand import Stand
from staticfire.cli.stay import until_exit, until_stopped
from staticfire.faults import actions
from staticfire.launch.places import WantedCluster, WantedControl
from staticfire.launch.processes import ProcessCluster
from staticfire.protocol.requests.faults import FaultRule
from staticfire.runtime.children import Child
from staticfire.runtime.ports import listen_on
from staticfire.runtime.signals import SignalInbox, stop_signals


@pytest.fixture
def inbox() -> Iterator[SignalInbox]:
    """An inbox, and afterwards the handlers that were there before."""
    numbers = [*stop_signals(), signal.SIGCHLD, signal.SIGUSR1]
    before = {number: signal.getsignal(number) for number in numbers}
    inbox = SignalInbox(signal.SIGCHLD, signal.SIGUSR1)
    yield inbox
    inbox.close()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def stand(inbox: SignalInbox) -> Iterator[Stand]:
    """A stand of which nothing was started."""
    cluster = ProcessCluster.prepare(WantedCluster(namesrv_port=0, broker_port=0), signals=inbox)
    with listen_on("127.0.0.1", 0, "") as sock:
        yield Stand(cluster, sock, inbox, WantedControl())
    cluster.stop()


def test_signals_are_taken_in_their_order(inbox: SignalInbox) -> None:
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.raise_signal(number)
    assert inbox.take_stop() == signal.SIGTERM
    assert inbox.take() == [signal.SIGUSR1, signal.SIGUSR1, signal.SIGINT]
    assert inbox.take() == []
    assert inbox.take_stop() is None


def test_signals_that_were_held_back_come_into_the_inbox() -> None:
    program = (
        "import os, signal\n"
        "from staticfire.runtime.signals import SignalInbox, hold_stops_back\n"
        "hold_stops_back()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(*(number.name for number in SignalInbox().take()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "SIGTERM\n"


def test_nohup_is_respected() -> None:
    program = "from staticfire.runtime.signals import stop_signals; print(len(stop_signals()))"
    for prefix, count in ([], "3"), (["nohup"], "2"):
        done = subprocess.run(
            [*prefix, sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
        )
        assert done.stdout.strip() == count


def test_a_flood_of_signals_stops_nothing(inbox: SignalInbox) -> None:
    for _ in range(100_000):  # More than a pipe has room for.
        signal.raise_signal(signal.SIGUSR1)
    assert len(inbox.take()) >= 65_536
    os.kill(os.getpid(), signal.SIGTERM)
    assert inbox.take_stop() == signal.SIGTERM


async def test_up_ends_at_once_when_a_stop_was_requested_before(stand: Stand) -> None:
    signal.raise_signal(signal.SIGTERM)
    assert await asyncio.wait_for(until_stopped(stand), 100) == 0


@pytest.fixture
def command() -> Iterator["subprocess.Popen[bytes]"]:
    """A command of `run` that ends by a signal only."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
async def test_run_passes_on_what_came_before(
    stand: Stand, command: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    signal.raise_signal(number)
    assert stand.signals.take_stop() in (None, signal.SIGTERM)  # As the end of a start looks for it.
    signal.raise_signal(number)
    assert await asyncio.wait_for(until_exit(stand, command), 100) == 128 + number


@pytest.fixture
def killed(stand: Stand) -> Stand:
    """A stand of which only the nameserver was started, and killed by fault rule 1."""
    stand.cluster.start(later=["broker-a"])
    stand.cluster.process_faults.add(FaultRule(action=actions.KILL, number=1), ["nameserver"])
    assert {*stand.signals.take()} == {signal.SIGCHLD}  # Of the nameserver, more than one if the system stopped it.
    return stand


async def while_restarting(waiting: Coroutine[None, None, int], stand: Stand, happens: Callable[[], object]) -> int:
    """Return the exit code of `up` or `run` if something happens while they restart the killed nameserver."""
    # The loop waits for signals already when it begins with the restart, which then reads them.
    end = asyncio.create_task(waiting)
    loop = asyncio.get_running_loop()
    loop.call_soon(happens)
    loop.call_soon(stand.cluster.process_faults.remove, 1)
    return await asyncio.wait_for(end, 100)


async def test_run_ends_when_its_command_ends_while_a_process_is_restarted(
    killed: Stand, command: "subprocess.Popen[bytes]"
) -> None:
    def command_ends() -> None:
        command.kill()
        os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOWAIT)

    assert await while_restarting(until_exit(killed, command), killed, command_ends) == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
async def test_run_passes_on_what_comes_while_a_process_is_restarted(
    killed: Stand, command: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    exit_code = await while_restarting(until_exit(killed, command), killed, lambda: signal.raise_signal(number))
    assert exit_code == 128 + number
    assert list(killed.cluster.pids) == ["nameserver"]
    assert killed.cluster.process_faults.views() == []


async def test_up_ends_when_a_stop_comes_while_a_process_is_restarted(killed: Stand) -> None:
    assert await while_restarting(until_stopped(killed), killed, lambda: signal.raise_signal(signal.SIGTERM)) == 0
    assert killed.signals.take() == []


def test_a_restarted_process_that_dies_after_a_signal_ended_the_wait_for_it_is_reported(killed: Stand) -> None:
    dead: list[Child] = []
    killed.cluster.on_death(dead.append)
    signal.raise_signal(signal.SIGTERM)
    killed.cluster.process_faults.remove(1)
    os.kill(killed.cluster.pids["nameserver"], signal.SIGKILL)
    while not dead:
        killed.cluster.children.pump(100)
    assert [child.name for child in dead] == ["nameserver"]


@pytest.mark.parametrize(("command", "exit_code"), [("up", 0), ("topics", 130)])
def test_ctrl_c_before_signals_are_handled_is_an_ordinary_end(
    command: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "start", interrupted)
    assert cli.main([command]) == exit_code
