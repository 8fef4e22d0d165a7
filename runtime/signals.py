"""Signals as a queue: none is lost, and none interrupts the program.

A Python signal handler runs between any two steps of a program. If it raises, the exception can appear anywhere:
between the start of a process and the line that stores it, or in an import, where Python drops it. So the handlers here
do nothing. Python writes the number of each signal into a pipe. A selector or an event loop reads it from there, at a
place where the program can decide what to do.

Two readers alternate: the event loop, and a wait for a process, which only ends early when a stop is requested. The
wait takes nothing away: what it has read makes the pipe readable again at its end, so the event loop handles it next.
"""

import os
import signal
from types import FrameType

from staticfire.runtime.exit_codes import STOP_SIGNALS

# A signal is one byte. If more are left, the pipe stays readable.
READ_BYTES = 4096
# No signal has this number.
NO_SIGNAL = b"\0"


class StopRequested(Exception):
    """A signal to stop came while something was being started. Only a wait raises it, never a handler.

    The signal is still in the inbox: the code that ends the program for it takes it out.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop us. SIGHUP is one of them, unless it is ignored, as under nohup."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [*STOP_SIGNALS, *hang_up]


class SignalInbox:
    """Receives signals for the whole process until `close`. There is only one at a time."""

    def __init__(self, *more: signal.Signals) -> None:
        """`more`: signals to receive besides the signals to stop. Signals that were blocked until now arrive."""
        self._stops = stop_signals()
        self._numbers = [*self._stops, *more]
        self._noted: list[signal.Signals] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in self._numbers:
            signal.signal(number, _leave_it_to_the_pipe)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are signals to take."""
        return self._reading

    def take(self) -> list[signal.Signals]:
        """Remove and return the received signals, oldest first."""
        self._read()
        taken, self._noted = self._noted, []
        return taken

    def first_stop(self) -> signal.Signals | None:
        """Return the oldest signal to stop. All signals are kept for `take`."""
        self._read()
        return next((number for number in self._noted if number in self._stops), None)

    def take_stop(self) -> signal.Signals | None:
        """Remove and return the oldest signal to stop; the others are kept for `take`."""
        number = self.first_stop()
        if number is not None:
            self._noted.remove(number)
        return number

    def notify_again(self) -> None:
        """Make `fileno` readable if signals were read, but not taken."""
        if self._noted:
            try:
                os.write(self._writing, NO_SIGNAL)
            except BlockingIOError:
                pass  # The pipe is full, so it is readable.

    def close(self) -> None:
        """Stop receiving. Later signals are ignored: the exit code is decided, and a signal would replace it."""
        for number in self._numbers:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        os.close(self._reading)
        os.close(self._writing)

    def _read(self) -> None:
        try:
            while data := os.read(self._reading, READ_BYTES):
                self._noted += map(signal.Signals, data.replace(NO_SIGNAL, b""))
        except BlockingIOError:
            pass


def hold_stops_back() -> None:
    """Block the signals to stop until an inbox receives them. Otherwise process 1 of a container would lose them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())


def _leave_it_to_the_pipe(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. While a handler is installed, Python writes the signal's number to the pipe."""
