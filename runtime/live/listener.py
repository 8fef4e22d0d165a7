"""A listening port that also works when the process has no free file descriptors.

asyncio's own server then calls accept as often as its backlog is long, with a traceback and a timer for each call, and
tries again every second. Here, a connection for which there is no descriptor is accepted with a spare descriptor and
closed at once: its peer is notified, and the port is no longer readable. Only if even that fails, the port isn't
watched for PAUSE_S.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence

from staticfire.runtime.live.descriptors import (
    ShortageNotice,
    SpareDescriptor,
    descriptors_max,
    is_kept_for_files,
)
from staticfire.runtime.log import logger

log = logger("network")

# The number of connections that wait to be accepted. asyncio's 100 is too small for a thousand clients that reconnect
# at once.
BACKLOG = 1024
# After so many connections, other tasks of the event loop get their turn.
ACCEPTED_AT_ONCE = 128
PAUSE_S = 1.0
NOBODY_WAITS = (BlockingIOError, InterruptedError, ConnectionAbortedError)


class LiveListener:
    """The listening sockets of one server. It owns and closes them."""

    def __init__(self, factory: Callable[[], asyncio.Protocol], socks: Sequence[socket.socket]) -> None:
        self._factory = factory
        self._socks = list(socks)
        self._loop = asyncio.get_running_loop()
        self._host, self._port = self._socks[0].getsockname()[:2]
        self._spare = SpareDescriptor()
        self._notice = ShortageNotice(_tell_of_shortage)
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._connecting: dict[asyncio.Task[object], None] = {}
        for sock in self._socks:
            sock.setblocking(False)
            sock.listen(BACKLOG)
            self._watch(sock)

    @property
    def host(self) -> str:
        return str(self._host)

    @property
    def port(self) -> int:
        return int(self._port)

    async def close(self) -> None:
        for sock in self._socks:
            self._loop.remove_reader(sock)
            sock.close()
        for pause in self._pauses.values():
            pause.cancel()
        self._socks.clear()
        self._pauses.clear()
        self._spare.release()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _watch(self, sock: socket.socket) -> None:
        self._pauses.pop(sock, None)
        self._spare.take()
        self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        """Accept the waiting connections."""
        limit = descriptors_max()
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _address = sock.accept()
            except NOBODY_WAITS:
                return
            except OSError as error:
                if not self._turn_away(sock, error, limit):
                    return
                continue
            if is_kept_for_files(accepted.fileno(), limit):
                accepted.close()
                self._refused(
                    "no file descriptor is left for a new connection; the last ones are reserved for files", limit
                )
                continue
            self._connect(accepted)

    def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        # asyncio does this itself only for a socket that was created with the protocol's number.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._factory, accepted))
        self._connecting[task] = None
        task.add_done_callback(self._connecting.pop)

    def _turn_away(self, sock: socket.socket, error: OSError, limit: int) -> bool:
        """Accept and close one connection with the spare descriptor; return whether more may wait.

        Without a free descriptor, accept() fails with the same error whether a connection waits or not.
        """
        self._spare.release()
        try:
            accepted, _address = sock.accept()
            accepted.close()
        except NOBODY_WAITS:
            self._spare.take()
            return False
        except OSError:
            self._pause(sock)
        self._refused(f"{error.strerror}: no file descriptor is left for a new connection", limit)
        if sock not in self._pauses and not self._spare.take():
            self._pause(sock)
        return sock not in self._pauses

    def _pause(self, sock: socket.socket) -> None:
        """Stop watching the port for PAUSE_S."""
        self._loop.remove_reader(sock)
        self._pauses[sock] = self._loop.call_later(PAUSE_S, self._watch, sock)

    def _refused(self, words: str, limit: int) -> None:
        self._notice.refused(f"{words}; the limit is {limit}, raise it with ulimit -n", self._loop.time())


def _tell_of_shortage(words: str, count: int) -> None:
    log.error("out_of_file_descriptors", refused=count, reason=words)
