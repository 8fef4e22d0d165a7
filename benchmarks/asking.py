"""Send single requests over a blocking socket, to prepare a measurement and to check its results."""

import socket
from struct import unpack

from benchmarks.frames import QUEUES
from staticfire.protocol.codecs import codec_for
from staticfire.protocol.command import Answer, Request, declaration_of
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer

TIMEOUT_S = 10


def ask(port: int, codec: int, request: Request) -> Answer:
    """Return the response. Raises: RuntimeError (an error response)."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        return ask_over(connection, codec, request)


def ask_over(connection: socket.socket, codec: int, request: Request) -> Answer:
    """Send a request over an existing connection. Raises: as `ask`."""
    reader_writer = codec_for(codec)
    connection.sendall(reader_writer.encode_request(request, 1, False))
    length, word = unpack(">II", _exactly(connection, 8))
    rest = _exactly(connection, length - 4)
    header_bytes = word & 0xFFFFFF
    envelope = reader_writer.decode_envelope(rest[:header_bytes])
    if envelope.code:
        raise RuntimeError(f"{type(request).__name__} was answered with {envelope.code}: {envelope.remark}")
    return reader_writer.decode_answer(declaration_of(type(request)).answer, envelope, rest[header_bytes:])


def messages_stored(port: int, codec: int, topic: str) -> int:
    """Return the number of messages in the queues of a topic."""
    total = 0
    for queue_id in range(QUEUES):
        answer = ask(port, codec, GetMaxOffset(topic, queue_id))
        assert isinstance(answer, OffsetAnswer)
        total += answer.offset
    return total


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise RuntimeError("the server closed the connection")
        data += part
    return bytes(data)
