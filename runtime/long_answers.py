"""Send a long response from where it is, a memory map for example, to the socket, with one system call.

Otherwise, a body is copied to be read, and again to be joined with its header. Each copy of more than 128 KiB is also
new memory, page by page: for 1 MiB, the copies take four times as long as the system call that sends.
"""

import asyncio
import os
from collections.abc import Callable

from staticfire.protocol.command import Answer
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.machine import Bytes


def send_long(call: Call, answer: Answer, body: memoryview, read: Callable[[int], bytes]) -> None:
    """Send a response at once, with a body that isn't copied if the socket takes it.

    `read` returns the body from a position on, for what the socket doesn't take. Raises: what `read` raises.
    """
    connection = call.connection
    connection.flush()
    head = call.codec.encode_head(answer, call.opaque, len(body))
    taken = _write_at_once(connection.bare_transport, [head, body])
    if taken == len(head) + len(body):
        return
    try:
        rest = read(max(0, taken - len(head)))
    except BaseException:
        if taken:
            connection.abort()  # A part of the frame is on its way, and the rest will not follow.
        raise
    out = connection.outgoing()
    if out is not None:
        out += head[taken:], rest
        connection.flush()


def _write_at_once(transport: asyncio.Transport | None, parts: list[Bytes]) -> int:
    """Write what the socket takes now; return how many bytes that was.

    0 if that isn't possible: there is no socket, earlier data waits, or there is an error, which the next ordinary
    write meets, too.
    """
    sock = None if transport is None else transport.get_extra_info("socket")
    if transport is None or sock is None or transport.is_closing() or transport.get_write_buffer_size():
        return 0
    try:
        return os.writev(sock.fileno(), parts)
    except (OSError, AttributeError):  # Windows has no such call.
        return 0
