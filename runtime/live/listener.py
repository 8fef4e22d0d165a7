"""A port that accepts connections, also when there are no descriptors for them.

asyncio's own server tries to accept as often as its backlog is long, with a traceback and a timer for each try, and
again every second. Here a connection for which there is no room is accepted and closed at once: its peer hears of it,
and the port is quiet. Only where even that fails, the port isn't looked at for PAUSE_S.
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

BACKLOG = 1024
# Connections that wait to be accepted. asyncio's 100 is too small for a thousand clients that reconnect at once.
ACCEPTED_AT_ONCE = 128
# Then others have their turn in the event loop.
PAUSE_S = 1.0
NOBODY_WAITS = (BlockingIOError, InterruptedError, ConnectionAbortedError)


class LiveListener:
    """Listening sockets, which belong to it."""

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
        """Accept those that wait."""
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
                self._refused("the last file descriptors are kept for files, none is left for a new connection", limit)
                continue
            self._connect(accepted)

    def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        # asyncio does this itself only for a socket that was made with the protocol's number.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._factory, accepted))
        self._connecting[task] = None
        task.add_done_callback(self._connecting.pop)

    def _turn_away(self, sock: socket.socket, error: OSError, limit: int) -> bool:
        """Accept and close one connection with the spare descriptor; tell whether more may wait.

        Without descriptors accept() fails with the same error whether somebody waits or nobody does.
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
        self._refused(f"{error.strerror}: there is no file descriptor for a new connection", limit)
        if sock not in self._pauses and not self._spare.take():
            self._pause(sock)
        return sock not in self._pauses

    def _pause(self, sock: socket.socket) -> None:
        """Look at the port again in a while."""
        self._loop.remove_reader(sock)
        self._pauses[sock] = self._loop.call_later(PAUSE_S, self._watch, sock)

    def _refused(self, words: str, limit: int) -> None:
        self._notice.refused(f"{words}; the limit is {limit}, raise it with ulimit -n", self._loop.time())


def _tell_of_shortage(words: str, count: int) -> None:
    log.error("out_of_file_descriptors", refused=count, reason=words)
