"""What several families use: a topic with messages, and how one is sent."""

from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from tests.oracle.step import Ask, Value

SEND, PULL, SEND_V2, SEND_BATCH = 10, 11, 310, 320
UPDATE_TOPIC = 17

BORN = "1700000000000"

SEND_FIELDS: dict[str, Value] = {
    "producerGroup": "producers",
    "topic": "{run}orders",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": BORN,
    "flag": "7",
    "properties": "TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01uniq-0\x02",
    "reconsumeTimes": "0",
    "unitMode": "false",
    "batch": "false",
}
LETTERS = dict(zip((*list(SEND_FIELDS)[:-1], "maxReconsumeTimes", "batch"), "abcdefghijklm", strict=True))
"""The letter of each field of a V2 send."""


def send(name: str, body: bytes = b"a body", **changes: Value) -> Ask:
    """A plain send of one message."""
    return Ask(name, SEND, {**SEND_FIELDS, **changes}, body)


def send_v2(name: str, body: bytes = b"a body", code: int = SEND_V2, **changes: Value) -> Ask:
    """The same with letters."""
    fields = {LETTERS[key]: value for key, value in {**SEND_FIELDS, **changes}.items()}
    return Ask(name, code, fields, body)


def batch(count: int, properties: str = "TAGS\x01a\x02KEYS\x01b{0}\x02UNIQ_KEY\x01batch-{0}\x02") -> bytes:
    """The body of a batch."""
    return encode_batch(
        BatchMessage(number, f"body {number}".encode(), properties.format(number).encode()) for number in range(count)
    )


def topic(name: str, queues: int = 1, perm: int = 6, **changes: Value) -> Ask:
    """Create a topic."""
    fields: dict[str, Value] = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return Ask(f"topic {name}", UPDATE_TOPIC, {**fields, **changes})
