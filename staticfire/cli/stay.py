"""The event loop of `up` and `run` while the processes run: their deaths, signals, the control endpoint."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext

from staticfire.cli.stand import Stand, tell
from staticfire.control.port import ControlPort
from staticfire.runtime.children import Child
from staticfire.runtime.exit_codes import EXIT_CLUSTER_FAILED, EXIT_SIGNAL_BASE, EXIT_STOPPED
from staticfire.runtime.signals import SignalInbox, stop_signals


async def with_control(stand: Stand, main: Callable[[], Awaitable[int]]) -> int:
    """Serve the control endpoint and read the output of the processes while `main` runs."""
    loop = asyncio.get_running_loop()
    children = stand.cluster.children
    loop.add_reader(children, children.pump)
    try:
        async with ControlPort(stand.cluster, stand.control_socket, stand.control), _failing_over(stand):
            return await main()
    finally:
        loop.remove_reader(children)


def _failing_over(stand: Stand) -> AbstractAsyncContextManager[None]:
    if not stand.cluster.fails_over:
        return nullcontext()
    from staticfire.launch.failover_loop import failing_over  # here, since few starts need it

    return failing_over(stand.cluster)


async def until_stopped(stand: Stand) -> int:
    """Wait for a signal or the death of a process; return the exit code of `up`."""
    end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def finish(exit_code: int) -> None:
        if not end.done():
            end.set_result(exit_code)

    def died(child: Child) -> None:
        tell(child.how_it_ended() + child.last_words())
        finish(EXIT_CLUSTER_FAILED)

    stand.cluster.on_death(died)
    with inbox_calls(stand.signals, lambda _: finish(EXIT_STOPPED)):
        return await end


@contextmanager
def inbox_calls(signals: SignalInbox, handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call a function in the event loop for each signal, including those that arrived before."""
    loop = asyncio.get_running_loop()

    def take() -> None:
        for number in signals.take():
            handle(number)

    take()  # Signals that were recorded before are no longer in the pipe, so the reader wouldn't see them.
    loop.add_reader(signals, take)
    try:
        yield
    finally:
        loop.remove_reader(signals)


@contextmanager
def signals_call(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call a function in the event loop for each stop signal: for commands that start no processes.

    Only the main thread of a program gets signals. In another one, a program calls the command as a function.
    """
    loop = asyncio.get_running_loop()
    numbers = stop_signals() if threading.current_thread() is threading.main_thread() else ()
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def until_exit(stand: Stand, process: "subprocess.Popen[bytes]") -> int:
    """Wait for the end of the command; return its exit code. Signals are passed on to the command."""
    end = asyncio.Event()

    def died(child: Child) -> None:
        stand.dead.append(child)
        tell(child.how_it_ended() + child.last_words())

    def signalled(number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            if process.poll() is not None:
                end.set()
        elif not _terminal_sends(number):
            process.send_signal(number)

    stand.cluster.on_death(died)
    with inbox_calls(stand.signals, signalled):
        await end.wait()
        stand.cluster.children.pump()  # A death before the command's end may not have been read yet.
    return process.returncode if process.returncode >= 0 else EXIT_SIGNAL_BASE - process.returncode


def _terminal_sends(number: signal.Signals) -> bool:
    """Return whether the terminal sends this signal to the command, too, because both are in its foreground group."""
    if number not in (signal.SIGINT, signal.SIGQUIT):
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)  # Not stdin, which may be a pipe.
    except OSError:
        return False  # There is no terminal.
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
