"""The requests of the load as complete frames, which are built before the measurement.

A *ring* is a list of frames that is sent repeatedly. Each frame has the content of a real client's: a unique key, a
tag, keys and WAIT in the properties, and over JSON the field letters of SendMessageRequestHeaderV2.
"""

from collections.abc import Sequence
from struct import pack

from staticfire.protocol import requests as _declarations  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import codec_for
from staticfire.protocol.command import Request
from staticfire.protocol.requests.pop import PopMessage
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.send import ManyMessage, SendBatch, SendMany, SendMessageV2

BODY_BYTES = 1024
RING_FRAMES = 256
QUEUES = 4
GROUP = "bench"
TEMPLATE_TOPIC = "TBW102"
BORN_MS = 1_700_000_000_000
HOLD_MS = 15_000
INVISIBLE_MS = 3_600_000

BODY = bytes(range(256)) * (BODY_BYTES // 256)


def properties(number: int, more: str = "") -> str:
    """Return the property string of a message as a Java producer sends it, with `more` at its end."""
    unique_id = f"7F0000010539736EDB5F1234ABCD{number & 0xFFFF:04X}"
    return f"KEYS\x01order-{number:08d}\x02UNIQ_KEY\x01{unique_id}\x02WAIT\x01true\x02TAGS\x01paid\x02{more}"


def batch_properties(number: int) -> str:
    """Return the property string of a batch, which has no properties of its messages."""
    return f"UNIQ_KEY\x017F0000010539736EDB5F4321DCBA{number & 0xFFFF:04X}\x02WAIT\x01true\x02"


def sends(codec: int, topic: str, count: int = RING_FRAMES, body: bytes = BODY, more: str = "") -> list[bytes]:
    """Return frames that send one message each, to the queues in turn. `more`: additional properties."""
    requests = [
        SendMessageV2(
            GROUP, topic, TEMPLATE_TOPIC, QUEUES, number % QUEUES, 0, BORN_MS, 0, properties(number, more), 0, False,
            batch=False, body=body,
        )
        for number in range(count)
    ]  # fmt: skip
    return _frames(codec, requests)


def batches(codec: int, topic: str, messages: int, count: int = RING_FRAMES // 8) -> list[bytes]:
    """Return frames that each send a RocketMQ batch."""
    requests = []
    for number in range(count):
        body = b"".join([_batch_entry(number * messages + index) for index in range(messages)])
        request = SendBatch(
            GROUP, topic, TEMPLATE_TOPIC, QUEUES, number % QUEUES, 0, BORN_MS, 0, batch_properties(number), 0, False,
            batch=True, body=body,
        )  # fmt: skip
        requests.append(request)
    return _frames(codec, requests)


def manys(
    codec: int, topic: str, messages: int, count: int = RING_FRAMES // 8, body: bytes = BODY, delay: str = ""
) -> list[bytes]:
    """Return frames that send many messages each, with a queue and a result per message.

    `delay`: the properties that delay all of them.
    """
    requests = []
    for number in range(count):
        texts = [delay + properties(number * messages + index) for index in range(messages)]
        bodies = [
            ManyMessage(topic, index % QUEUES, text.encode(), body, 0, 0, BORN_MS) for index, text in enumerate(texts)
        ]
        requests.append(SendMany(GROUP, TEMPLATE_TOPIC, QUEUES, body=bodies))
    return _frames(codec, requests)


def pulls(
    codec: int,
    topic: str,
    messages: int,
    stored_per_queue: int,
    queue_ids: Sequence[int] = range(QUEUES),
    group: str = GROUP,
) -> list[bytes]:
    """Return frames that together pull all stored messages of these queues once."""
    requests = [
        PullMessage(
            group, topic, queue_id, offset, messages, FLAG_SUBSCRIPTION | FLAG_SUSPEND, 0, HOLD_MS, "*", 0, "TAG"
        )
        for offset in range(0, stored_per_queue - messages + 1, messages)
        for queue_id in queue_ids
    ]
    return _frames(codec, requests)


def pops(codec: int, topic: str, messages: int, queue_ids: Sequence[int]) -> list[bytes]:
    """Return one frame per queue that pops that many messages. They are never acknowledged."""
    requests = [PopMessage(GROUP, topic, queue_id, messages, INVISIBLE_MS, 0, 0, 0) for queue_id in queue_ids]
    return _frames(codec, requests)


def _batch_entry(number: int) -> bytes:
    """Return one message inside a batch body: size, magic, body CRC, flag, body, properties."""
    text = properties(number).encode()
    size = 4 + 4 + 4 + 4 + 4 + len(BODY) + 2 + len(text)
    return pack(">iiiii", size, 0, 0, 0, len(BODY)) + BODY + pack(">h", len(text)) + text


def _frames(codec: int, requests: Sequence[Request]) -> list[bytes]:
    encode = codec_for(codec).encode_request
    return [encode(request, opaque, False) for opaque, request in enumerate(requests)]
