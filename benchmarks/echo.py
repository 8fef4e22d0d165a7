"""The server to compare with: a bare asyncio.Protocol that responds to frames and does nothing else.

    python -m benchmarks.echo ANSWER_BYTES

It responds to each frame, of any size, with a frame of ANSWER_BYTES that reports success. The responses to one read are
sent with one write. It prints its port. This is the minimum for asyncio on this machine: the additional time of a
broker is its own work.
"""

import asyncio
import sys
from struct import Struct

from staticfire.protocol.codecs.native import ENVELOPE_BYTES, frame

_length = Struct(">I").unpack_from


class Echo(asyncio.Protocol):
    """One connection."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end, answers = 0, len(data), 0
        while end - at >= 4:
            stop = at + 4 + _length(data, at)[0]
            if stop > end:
                break
            at = stop
            answers += 1
        self._rest = data[at:]
        if answers and self._transport is not None:
            self._transport.write(self._answer * answers)


async def main(answer_bytes: int) -> None:
    """Serve until killed."""
    answer = frame(0, 0, 1, b"\xc0", bytes(max(0, answer_bytes - ENVELOPE_BYTES - 1)))
    server = await asyncio.get_running_loop().create_server(lambda: Echo(answer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
