"""Spoilt records, batches, property strings and JSON, read by everything that reads them."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

from staticfire.client.cluster.pull_answers import received
from staticfire.protocol import fastjson, properties
from staticfire.protocol.command import RecordBatch
from staticfire.protocol.compression import expand
from staticfire.protocol.delay_levels import requested_level
from staticfire.protocol.errors import BrokerAnswer, ProtocolError
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.record import (
    Found,
    StoredRecord,
    check_record,
    decode_record,
    decode_records,
    join_records,
    pack_stored,
)
from staticfire.protocol.rocketmq_record import decode_batch, to_rocketmq
from staticfire.protocol.sys_flag import COMPRESSED
from tests.fuzz.corpus import STORE_HOST, batches, golden_records, stored_records
from tests.fuzz.mutations import Mutator
from tests.protocol.rocketmq_answers import split_rocketmq

REFUSALS = (ProtocolError, BrokerAnswer)
EXPANDED_BYTES_MAX = 100_000
JSON_BODIES = [
    b'{"consumerIdList":["a","b"]}',
    b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}',
    b'{a:1,\'b\':[1,2,{}],"c":{1:"x"},}',
    b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[]}',
]
IDS = [b"0A000007000027DF0000000000000025", b"00" * 28]

Read = Callable[[bytes], object]


def read_foreign(data: bytes) -> None:
    """Read records of RocketMQ; what can be read can be stored, sent on, and parsed."""
    for check_body in (True, False):
        for record, store_host in split_rocketmq(data, check_body):
            stored = pack_stored(record)
            to_rocketmq(stored, store_host)
            look_at(record)


def read_stored(data: bytes) -> None:
    """Read a stored record as a native client does."""
    look_at(decode_record(data))


def read_pulled(data: bytes) -> None:
    """Read the body of a pull's answer."""
    for message in received(RecordBatch(decode_records(data)), "broker-a", None, STORE_HOST):
        assert len(message.body) < 8 << 20


def read_log(data: bytes) -> None:
    """Read what is in a log: a whole record can be sent to every client."""
    position = int.from_bytes(data[19:27], "big", signed=True) if len(data) >= 27 else 0
    if check_record(data, 0, position).found is Found.RECORD:
        size = int.from_bytes(data[4:8], "big")
        look_at(decode_record(data[:size]))
        to_rocketmq(data[:size], STORE_HOST)


def look_at(record: StoredRecord) -> None:
    """Use all that a listener may look at."""
    message = ReceivedMessage(record, "broker-a", STORE_HOST)
    message.properties, message.tags, message.keys, message.message_id, message.delay_level  # noqa: B018
    message.transaction_id, message.store_host, message.offset_message_id, repr(message)
    message.born_host  # noqa: B018


def read_properties(data: bytes) -> None:
    """Read and change a property string; a property that was set is found."""
    properties.parse_properties(data)
    for name in (properties.TAGS, properties.UNIQ_KEY, properties.DELAY):
        properties.find_property(data, name)
    assert properties.find_property(properties.with_property(data, properties.KEYS, "k"), properties.KEYS) == b"k"
    assert not properties.find_property(properties.without_property(data, properties.TAGS), properties.TAGS)
    requested_level(data)


def expand_within(data: bytes) -> None:
    assert len(expand(data, COMPRESSED, EXPANDED_BYTES_MAX)) <= EXPANDED_BYTES_MAX


def read_id(data: bytes) -> None:
    parse_offset_id(data.decode("utf-8", "replace"))


class Records:
    """Reads spoilt records. `seen` counts by what was read and whether it could be."""

    def __init__(self, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._mutator = Mutator(seed)
        self._random: random.Random = self._mutator.random
        golden, stored = golden_records(), stored_records()
        texts = [record.properties for record, _ in (split_rocketmq(one)[0] for one in golden)]
        packed = [
            record.body for record, _ in (split_rocketmq(one)[0] for one in golden) if record.sys_flag & COMPRESSED
        ]
        pulled = [join_records(stored[:count]) for count in range(1, 5)]
        self._kinds: list[tuple[Sequence[bytes], Read]] = [
            (golden, read_foreign),
            (stored, read_stored),
            (pulled, read_pulled),
            (stored, read_log),
            (batches(), decode_batch),
            (texts, read_properties),
            (packed, expand_within),
            (JSON_BODIES, fastjson.decode),
            (IDS, read_id),
        ]

    def read(self) -> None:
        """Spoil one and let it be read."""
        corpus, read = self._random.choice(self._kinds)
        spoilt = self._mutator.spoil(self._random.choice(corpus), self._random.choice(corpus))
        try:
            read(spoilt)
        except REFUSALS:
            self.seen[f"{read.__name__}: refused"] += 1
        else:
            self.seen[f"{read.__name__}: read"] += 1
