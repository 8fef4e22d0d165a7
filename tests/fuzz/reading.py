"""Spoilt frames, read by real connections: both sides of them, in pieces as they may come from a socket."""

import asyncio
from collections import Counter
from typing import Any

from staticfire.protocol.codecs import codec_for
from staticfire.protocol.command import REQUESTS, Answer, Declaration
from staticfire.protocol.errors import ConnectionLost, ProtocolError
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from tests.fuzz.corpus import Corpus
from tests.fuzz.mutations import Mutator

TIMEOUT_MS = 1_000
LEFT_AT = 0.3
# How often a connection that isn't closed gets nothing more.


class Wire(asyncio.Transport):
    """A socket that leads nowhere, and remembers that it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False
        self.written_bytes = 0

    def write(self, data: Any) -> None:
        self.written_bytes += len(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 4711) if name == "peername" else ("10.0.0.7", 10911)


def connected(codec_byte: int, accepting: bool, dispatcher: Dispatcher | None = None) -> Connection:
    """Return a connection over such a socket."""
    connection = Connection(dispatcher or Dispatcher(), codec_for(codec_byte), accepting)
    connection.connection_made(Wire())
    return connection


class Reader:
    """Reads spoilt frames of one codec. `seen` counts what became of them."""

    def __init__(self, codec_byte: int, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._mutator = Mutator(seed)
        self._random = self._mutator.random
        self._corpus = Corpus(codec_byte, seed)
        self._codec_byte = codec_byte
        self._dispatcher = Dispatcher()
        for code in REQUESTS:
            self._dispatcher.handle(code, self._handled)
        self._accepting: Connection | None = None

    def _handled(self, call: Call) -> Answer:
        self.seen["requests that could be read"] += 1
        return Answer()

    def _connected(self, accepting: bool) -> Connection:
        return connected(self._codec_byte, accepting, self._dispatcher)

    def read(self) -> None:
        """Spoil one frame and let it be read."""
        frame, answered = self._random.choice(self._corpus.frames)
        other = self._random.choice(self._corpus.frames)[0]
        spoilt = self._mutator.spoil_frame(frame, other)
        if answered is None or answered.code not in self._corpus.questions:
            self._read_request(spoilt)
        else:
            self._read_answer(spoilt, answered)

    def _read_request(self, spoilt: bytes) -> None:
        connection = self._accepting or self._connected(accepting=True)
        for piece in self._mutator.pieces(spoilt):
            connection.data_received(piece)
            if not connection.is_open:
                self.seen["connections closed"] += 1
                break
        if not connection.is_open or self._random.random() < LEFT_AT:
            connection.connection_lost(None)
            self._accepting = None
        else:
            self._accepting = connection

    def _read_answer(self, spoilt: bytes, answered: Declaration) -> None:
        connection = self._connected(accepting=False)
        answer = connection.ask(self._corpus.questions[answered.code], TIMEOUT_MS)
        for piece in self._mutator.pieces(spoilt):
            connection.data_received(piece)
            if not connection.is_open:
                self.seen["connections closed"] += 1
                break
        connection.connection_lost(None)
        error = answer.exception()
        if error is None:
            self.seen["answers that could be read"] += 1
        elif isinstance(error, ProtocolError):
            self.seen["answers that could not be read"] += 1
        elif not isinstance(error, ConnectionLost):
            raise error
