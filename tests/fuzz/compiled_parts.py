"""The ways in which bytes of other programs, or of a disk, come into the compiled twin, and what spoils them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from staticfire.protocol.codecs import JSON, NATIVE
from staticfire.protocol.compiled import Twin
from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from tests.fuzz import compiled_inputs as inputs
from tests.fuzz.compiled_inputs import USUAL, Callbacks, NotPlain
from tests.fuzz.guarded import check_ends, guarded
from tests.fuzz.mutations import Mutator

ANSWER_HEAD = b"head."
NAMES = b"TAGS", b"KEYS", b"UNIQ_KEY"
RECORD_BYTES_MAX = 1 << 20
HOST_FIELD = b"\x42\x01h"
KINDS = {b"TAGS": 1, b"KEYS": 2, b"UNIQ_KEY": 3, b"__BORNHOST": 4, b"WAIT": 0, b"DELAY": 5}
# What the twin does with a property: proxy/services/received_messages.py.


class Entry(NamedTuple):
    """One way in: `call` hands an input to the twin."""

    name: str
    inputs: Sequence[bytes]
    call: Callable[[Any, Callbacks], object]
    is_array: bool
    """Whether it takes any buffer; else it wants bytes."""
    mend: Callable[[bytes], bytes] | None = None
    """Corrects the lengths in the head of a spoilt input, so that the rest is read, too."""

    def run(self, data: bytes, callbacks: Callbacks = USUAL) -> object:
        """Return what the twin makes of an input; None also if it is refused by what is asked about the rest."""
        with guarded(data, self.is_array) as own:
            try:
                made = self.call(own, callbacks)
            except NotPlain:
                return None
        check_ends(made)
        return made

    def spoilt(self, data: bytes) -> Iterator[bytes]:
        """Yield the input cut at each of its bytes, and with each of its bits turned."""
        for end in range(len(data)):
            yield data[:end]
            if self.mend is not None:
                yield self.mend(data[:end])
        for at in range(len(data)):
            for bit in range(8):
                yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def mend_record(data: bytes) -> bytes:
    return data[:4] + len(data).to_bytes(4, "big") + data[8:] if len(data) >= 8 else data


def mend_frame(data: bytes) -> bytes:
    if len(data) < inputs.HEAD_BYTES:
        return data
    left = len(data) - inputs.HEAD_BYTES
    header_bytes = min(int.from_bytes(data[5:8], "big"), left)
    return (4 + left).to_bytes(4, "big") + data[4:5] + header_bytes.to_bytes(3, "big") + data[inputs.HEAD_BYTES :]


def mend_answer(data: bytes) -> bytes:
    return data[: len(ANSWER_HEAD)] + mend_record(data[len(ANSWER_HEAD) :])


def entries(twin: Twin) -> list[Entry]:
    """Return all ways in."""
    return [*_of_records(twin), *_of_batches(twin), *_of_properties(twin), *_of_sends(), *_of_ends()]


def _of_records(twin: Twin) -> Iterator[Entry]:
    def convert(data: Any, callbacks: Callbacks) -> object:
        return twin.rocketmq_records([data], inputs.STORE_HOST, callbacks.otherwise)

    def frame(data: Any, _: Callbacks) -> object:
        return twin.pulled_frame([data, data], inputs.STORE_HOST, b"{}", RECORD_BYTES_MAX)

    def prove(data: bytes, callbacks: Callbacks) -> object:
        size = int.from_bytes(data[4:8], "big")  # What the record itself says: of one that was cut it is too much.
        place = [inputs.POSITION], [size], inputs.QUEUE_ID, inputs.TOPIC, 0, 100
        return twin.are_proven([data], *place, callbacks.crc32)

    def columns(data: bytes, _: Callbacks) -> object:
        return twin.record_columns([data], len(ANSWER_HEAD), NAMES, True)

    def copy(data: bytes, callbacks: Callbacks) -> object:
        return twin.take_copied(data, 0, inputs.POSITION, callbacks.find, callbacks.crc32)

    records, row, with_ipv6 = inputs.RECORDS, inputs.ROW, inputs.WITH_IPV6
    yield Entry("rocketmq_records", [*records, row], convert, True, mend_record)
    yield Entry("pulled_frame", [*records, row], frame, True, mend_record)
    yield Entry("are_proven", [*records, with_ipv6], prove, False, mend_record)
    yield Entry("take_copied", [*records, with_ipv6], copy, False, mend_record)
    answers = [ANSWER_HEAD + one for one in (*records, row, with_ipv6)]
    yield Entry("record_columns", answers, columns, False, mend_answer)


def _of_batches(twin: Twin) -> Iterator[Entry]:
    def pack(data: Any, callbacks: Callbacks) -> object:
        numbers = inputs.POSITION, inputs.QUEUE_ID, inputs.FIRST_OFFSET, inputs.STORED_MS, inputs.STORED_MS
        return twin.pack_batch(
            data, inputs.ADDED, *numbers, inputs.BORN_HOST, inputs.TOPIC, RECORD_BYTES_MAX, callbacks.crc32
        )

    messages = [BatchMessage(0, b"body", b"TAGS\x01a\x02UNIQ_KEY\x01u"), BatchMessage(0, b"x" * 30, b"")]
    yield Entry("pack_batch", [encode_batch(messages), encode_batch(messages[::-1])], pack, True)


def _of_properties(twin: Twin) -> Iterator[Entry]:
    shared = b"\x0a\x01t", b"\x22\x26\x08\x02\x12\x20", b"\x52\x01s", KINDS

    def receive(data: bytes, _: Callbacks) -> object:
        stored = data, b"body", HOST_FIELD, 0, inputs.STORED_MS, inputs.STORED_MS, 3, 7
        return twin.received_head(stored, shared, bytes(16), "receipt", 1)

    yield Entry("received_head", inputs.PROPERTY_TEXTS, receive, False)


def _of_sends() -> Iterator[Entry]:
    offset, position, half = inputs.kept_half()
    kept = {position: half}
    ends = [inputs.end_of(offset, position, kind) for kind in (inputs.COMMIT, inputs.ROLLBACK)]
    for codec, take in ((NATIVE, inputs.take_native), (JSON, inputs.take_json)):
        frames = inputs.send_frames(codec) + [inputs.frame(end, codec) for end in ends]

        def call(data: Any, callbacks: Callbacks, take: Any = take) -> object:
            return take(data, callbacks, kept)

        yield Entry(take.__name__, frames, call, True, mend_frame)


def _of_ends() -> Iterator[Entry]:
    """Yield the half messages that are kept for their ends."""
    offset, position, half = inputs.kept_half()
    for codec, take in ((NATIVE, inputs.take_native), (JSON, inputs.take_json)):
        end = inputs.frame(inputs.end_of(offset, position), codec)

        def call(data: Any, callbacks: Callbacks, take: Any = take, end: bytes = end) -> object:
            return take(end, callbacks, {position: data})

        yield Entry(f"{take.__name__}: a kept half message", [half], call, False, mend_record)


class CompiledParts:
    """Hands spoilt inputs to the twin. `seen` counts by entry and whether anything was made of them."""

    def __init__(self, twin: Twin, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._mutator = Mutator(seed)
        self._entries = entries(twin)

    def read(self) -> None:
        """Spoil one input and let the twin read it."""
        random = self._mutator.random
        entry = random.choice(self._entries)
        spoilt = self._mutator.spoil(random.choice(entry.inputs), random.choice(entry.inputs))
        if entry.mend is not None and random.random() < 0.7:
            spoilt = entry.mend(spoilt)
        made = entry.run(spoilt)
        self.seen[f"{entry.name}: {'left to Python' if made is None or made is False else 'made'}"] += 1
