"""One end of a simulated connection. It behaves like asyncio's transports.

    protocol A - write() -> backlog -> window of the link ... unread -> data_received() - protocol B

The backlog is the process's own buffer: its size triggers `pause_writing` and `resume_writing`, and it is lost with the
process. What is in the window has left the process: it arrives whatever happens to the sender. The window is freed when
the other side reads, so a reader that pauses fills the writer's backlog.

A connection is reset when an end is closed while bytes are unread, when its process is killed, or when it receives
bytes after it was closed. The other side is notified in order, after the bytes that were sent before, and only when it
reads.
"""

import asyncio
import errno
import os
from asyncio.transports import _FlowControlMixin
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

from staticfire.runtime.machine import Bytes
from staticfire.simulation.world.history import History
from staticfire.simulation.world.link import Lane, Link
from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.process import Process

# How much is read at once, as in asyncio.
READ_BYTES_MAX = 256 * 1024
SocketAddress = tuple[str, int]


class End(Enum):
    """What follows the last byte."""

    CLOSED = "closed"
    RESET = "reset"


class SimulatedTransport(_FlowControlMixin, asyncio.Transport):
    """One end of a connection. `_FlowControlMixin` has asyncio's own water marks."""

    _protocol: asyncio.Protocol
    _protocol_paused: bool
    _maybe_pause_protocol: Callable[[], None]
    _maybe_resume_protocol: Callable[[], None]

    def __init__(
        self,
        loop: JumpingLoop,
        process: Process,
        outgoing: Link,
        addresses: tuple[SocketAddress, SocketAddress],
        history: History,
        gone: "Callable[[SimulatedTransport], None]",
    ) -> None:
        """`gone` is called once, when the socket is closed."""
        super().__init__({"sockname": addresses[0], "peername": addresses[1]}, loop)
        self._jumping_loop = loop
        self.process = process
        self.peer: SimulatedTransport
        self.outgoing = outgoing
        self._gone = gone
        self._lane = Lane()
        self._context = process.context.copy()
        self._history = history
        self._backlog = bytearray()
        self._unread: deque[bytes | End] = deque()
        self._unread_bytes = 0
        self._window_used_bytes = 0
        self._is_open = False
        self._is_closing = False
        self._is_lost = False  # connection_lost was called or is scheduled
        self._is_closed = False  # the socket is closed
        self._is_reset = False  # by the other side, though the process may not have read that yet
        self._is_paused = False
        self._read_planned = False

    def __repr__(self) -> str:
        here, there = ("{}:{}".format(*self.get_extra_info(end)) for end in ("sockname", "peername"))
        return f"connection of {self.process.name} ({here}) to {self.peer.process.name} ({there})"

    def call_in_process(self, callback: Callable[..., object], *arguments: object) -> None:
        self._jumping_loop.call_soon(callback, *arguments, context=self._context)

    def open(self, protocol: asyncio.Protocol) -> None:
        """Connect the transport to its protocol."""
        self._protocol = protocol
        self._is_open = True
        try:
            protocol.connection_made(self)
        finally:
            self._plan_read()

    # -- used by protocols -----------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if not data or self._is_lost:
            return
        if self._is_reset:
            self._fail(_reset_error())
            return
        if self._backlog:
            self._backlog.extend(data)
        else:
            sent = self._send(data)
            if sent == len(data):
                return
            self._backlog.extend(memoryview(data)[sent:])
        self._maybe_pause_protocol()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return len(self._backlog)

    def is_reading(self) -> bool:
        return not self._is_closing and not self._is_paused

    def pause_reading(self) -> None:
        if self.is_reading():
            self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._plan_read()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._backlog:
                self._lose(None)

    def abort(self) -> None:
        self._fail(None)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.Protocol:
        return self._protocol

    # -- sending -------------------------------------------------------------------------------------------------

    def _send(self, data: Bytes) -> int:
        """Send as many bytes as fit into the window; return their number."""
        outgoing = self.outgoing
        room = outgoing.quality.window_bytes - self._window_used_bytes
        if room <= 0:
            return 0
        piece = data if type(data) is bytes and len(data) <= room else bytes(data[:room])
        size = len(piece)
        self._window_used_bytes += size
        outgoing.carry(self.peer.arrive, piece, lane=self._lane, size=size)
        if outgoing.may_reset and outgoing.resets():
            self.break_off()
        return size

    def break_off(self) -> None:
        """Reset the connection from the network: both sides are notified."""
        self.outgoing.carry(self.peer.arrive, End.RESET, lane=self._lane)
        self.peer.outgoing.carry(self.arrive, End.RESET, lane=self.peer._lane)

    def _send_backlog(self) -> None:
        if self._is_lost or not self._backlog:
            return
        del self._backlog[: self._send(self._backlog)]
        self._maybe_resume_protocol()
        if self._is_closing and not self._backlog:
            self._lose(None)

    # -- receiving -----------------------------------------------------------------------------------------------

    def arrive(self, item: bytes | End) -> None:
        """Receive an item from the wire. This is the operating system's part, independent of the process's state."""
        if self._is_closed:
            if isinstance(item, bytes):
                self.outgoing.carry(self.peer.arrive, End.RESET, lane=self._lane)
            return
        self._unread.append(item)
        if type(item) is bytes:
            self._unread_bytes += len(item)
        elif item is End.RESET:
            self._is_reset = True
            if self._backlog:
                # A process that waits to write is notified at once; one that neither reads nor writes isn't.
                self.call_in_process(self._fail, _reset_error())
        if self.process.is_running and self._is_open and not self._read_planned and not self._is_paused:
            # Read at once, as it would happen at this moment, without a round of the loop for each piece.
            self._context.run(self._read)
        else:
            self._plan_read()

    def _plan_read(self) -> None:
        if self._unread and self._is_open and not self._read_planned and self.is_reading():
            self._read_planned = True
            self.call_in_process(self._read)

    def _read(self) -> None:
        self._read_planned = False
        if self._is_closing or self._is_paused or self._is_lost or not self._unread:
            return
        first = self._unread[0]
        if first is End.RESET:
            self._fail(_reset_error())
            return
        try:
            if first is End.CLOSED:
                self._unread.popleft()
                if not self._protocol.eof_received():
                    self.close()
            else:
                self._protocol.data_received(self._take())
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio's transports do
            self._blame_protocol(error)
            return
        if self._unread:
            self._plan_read()

    def _take(self) -> bytes:
        """Return the bytes of one read, and free their part of the window."""
        unread, outgoing = self._unread, self.peer.outgoing
        first = unread.popleft()
        assert isinstance(first, bytes)
        data = first if not unread else _joined(first, unread)
        if outgoing.quality.fragments or len(data) > READ_BYTES_MAX:
            taken = outgoing.piece_bytes(min(len(data), READ_BYTES_MAX))
            if taken < len(data):
                unread.appendleft(data[taken:])
                data = data[:taken]
        size, peer = len(data), self.peer
        self._unread_bytes -= size
        peer._window_used_bytes -= size
        if peer._backlog:
            # The freed window is reported to the sender only if the sender waits for it.
            self.outgoing.carry(peer.call_in_process, peer._send_backlog, lane=self._lane)
        self._history.record_bytes(self.process.name, "received", data, self.peer.process.name)
        return data

    # -- the end -------------------------------------------------------------------------------------------------

    def _blame_protocol(self, error: BaseException) -> None:
        context = {"message": f"the protocol of {self!r} failed", "exception": error, "protocol": self._protocol}
        self._jumping_loop.call_exception_handler(context)
        self._fail(error)

    def _fail(self, error: BaseException | None) -> None:
        """Discard what isn't sent yet, and the connection."""
        if not self._is_lost:
            self._backlog.clear()
            self._is_closing = True
            self._lose(error)

    def _lose(self, error: BaseException | None) -> None:
        self._is_lost = True
        self.call_in_process(self._tell_protocol, error)

    def _tell_protocol(self, error: Exception | None) -> None:
        try:
            if self._is_open:
                self._history.record(self.process.name, "lost", self.peer.process.name, repr(error))
                self._protocol.connection_lost(error)
        finally:
            self.close_socket(End.RESET if self._unread_bytes else End.CLOSED)

    def close_socket(self, end: End) -> None:
        """Close the operating system's part and notify the other side."""
        if self._is_closed:
            return
        self._is_closed = self._is_lost = self._is_closing = True
        self._backlog.clear()
        self._unread.clear()
        self._unread_bytes = 0
        self.outgoing.carry(self.peer.arrive, end, lane=self._lane)
        self._gone(self)


def _joined(first: bytes, unread: deque[bytes | End]) -> bytes:
    """Return the bytes of one read: the first piece and the following ones, up to the limit."""
    pieces, size = [first], len(first)
    while unread and size < READ_BYTES_MAX and isinstance(unread[0], bytes):
        pieces.append(unread[0])
        size += len(unread[0])
        unread.popleft()
    return b"".join(pieces)


def _reset_error() -> OSError:
    return OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
