"""The load that pops: messages are counted, and a broker that has none right now is asked again."""

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from benchmarks.load import UnexpectedAnswerError
from benchmarks.pop_load import PopConnection, messages_popped, run_pops
from benchmarks.servers import ServerProcess

REQUEST = b"pop!"


def answer(code: int, messages: int = 0) -> bytes:
    """Return a broker's answer; its messages have nothing but their sizes that anybody looks at."""
    header = json.dumps({"code": code, "language": "JAVA"}).encode()
    body = b"".join([struct.pack(">I", 4 + number) + bytes(number) for number in range(messages)])
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


@contextmanager
def answering(answers: Sequence[bytes]) -> Iterator[ServerProcess]:
    """Listen, and answer one connection's pops with these."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for each in answers:
                assert connection.recv(len(REQUEST)) == REQUEST
                connection.sendall(each)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield ServerProcess((os.getpid(),), listener.getsockname()[1])
        thread.join()


def test_who_gets_no_message_pops_again_until_all_have_come() -> None:
    with answering([answer(210), answer(0, 3), answer(19), answer(210), answer(0, 2)]) as server:
        connection = PopConnection(server.port, [REQUEST], 5)
        window = run_pops(server, [connection])
        connection.close()
    assert window.answers == 5
    assert connection.left == 0


@pytest.mark.parametrize("refusal", [answer(1), answer(209)])
def test_a_refusal_ends_the_bench(refusal: bytes) -> None:
    with pytest.raises(UnexpectedAnswerError, match="not the answer"):
        messages_popped(refusal)


def test_a_message_without_a_size_ends_the_bench() -> None:
    with pytest.raises(UnexpectedAnswerError, match="behind 2 others"):
        messages_popped(answer(0, 2) + bytes(8))
