"""The form in which a dead letter is sent again. Pure.

It keeps body, flag, born time, keys, tags, sharding key, unique id and the program's properties, so that a listener
sees the same message. It also keeps `ORIGIN_MESSAGE_ID`, which leads to its first record. What brokers and consumers
added for one delivery is removed, and its number of retries restarts at 0.
"""

from collections.abc import Mapping

import msgspec

from staticfire.client.admin.dead_letters import HISTORY, DeadLetter, read_history, write_history
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol import properties as names
from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import ClientError
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.names import INNER_PRODUCER_GROUP, retry_topic
from staticfire.protocol.properties import find_property, format_properties
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.protocol.sys_flag import COMPRESSED, COMPRESSION_MASK, MULTI_TAGS
from staticfire.protocol.tags import java_hash

NOT_KEPT = frozenset(
    {
        names.WAIT, names.DELAY, names.RETRY_TOPIC, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES, names.MIN_OFFSET,
        names.MAX_OFFSET, names.CONSUME_START_TIME, names.MSG_REGION, names.TRACE_ON, names.CLUSTER, names.REAL_TOPIC,
        names.REAL_QID, names.DLQ_ORIGIN_TOPIC, names.DLQ_ORIGIN_MESSAGE_ID, names.POP_CK, names.POP_CK_OFFSET,
        names.FIRST_POP_TIME, names.CRC32, names.TRAN_MSG, names.PGROUP, names.TRANSACTION_CHECK_TIMES,
        names.TRAN_PREPARED_QUEUE_OFFSET, names.CHECK_IMMUNITY_TIME_IN_SECONDS, names.TIMER_DELAY_SEC,
        names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS,
        names.TIMER_ROLL_TIMES, names.TIMER_OUT_MS, names.TIMER_DEL_UNIQKEY, names.TIMER_DELAY_LEVEL,
        names.INNER_NUM, names.INNER_BASE, names.INNER_MULTI_DISPATCH, names.INNER_MULTI_QUEUE_OFFSET, HISTORY,
    }
)  # fmt: skip
# The size to reserve for properties that a broker adds.
BROKERS_BYTES_MAX = 512
# The body is sent as it is stored, so a compressed body stays compressed.
_FLAGS_KEPT = COMPRESSED | COMPRESSION_MASK | MULTI_TAGS


class LeftLetter(msgspec.Struct, frozen=True):
    """A dead letter that wasn't sent again, and why."""

    id: str
    reason: str


class ResendReport(msgspec.Struct):
    """The result of a resend."""

    resent: dict[str, int] = {}
    """The number of letters sent, by topic."""
    skipped: int = 0
    """The number of letters that an earlier resend had sent: it was interrupted, or left a letter before them."""
    left: list[LeftLetter] = []
    """The letters that can't be sent as requested; the next resend of all tries them again."""
    other_groups: list[str] = []
    """Other groups that consume these topics, and get the messages again."""
    other_groups_unknown: list[str] = []
    """Why there may be more such groups: `broker-b: no response`, for each broker that didn't name its groups."""

    @property
    def count(self) -> int:
        """The total number of letters sent."""
        return sum(self.resent.values())


class ResendInterrupted(ClientError):
    """A resend failed before all letters were sent; `report` has its progress.

    The next resend of all continues there, a resend of all again with `start=next_id`.
    """

    def __init__(self, words: str, report: ResendReport, next_id: str) -> None:
        """`next_id`: the place of the first letter that wasn't sent."""
        super().__init__(words)
        self.report = report
        self.next_id = next_id


class ResendRunning(ClientError):
    """Another program resends all dead letters of the group now. Nothing was sent."""


def resent_request(letter: DeadLetter, queue: MessageQueue, topic: str) -> SendMessageV2:
    """Return the request that sends a letter to a queue.

    `topic`: the topic that the listener must see, if the queue belongs to the group's retry topic. Raises: ClientError
    (it can't be sent).
    """
    message = letter.message
    if crc32(message.record.body) & 0x7FFFFFFF != message.record.body_crc:
        raise ClientError(f"{letter.id}: its body was damaged during the transfer; try again")
    properties = _properties(letter, queue, topic)
    return SendMessageV2(
        producer_group=INNER_PRODUCER_GROUP,
        topic=queue.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue.queue_id,
        sys_flag=message.sys_flag & _FLAGS_KEPT,
        born_timestamp=message.born_ms,
        flag=message.flag,
        properties=properties.decode("utf-8", "replace"),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        bname=queue.broker_name,
        body=message.record.body,
    )


def _properties(letter: DeadLetter, queue: MessageQueue, topic: str) -> bytes:
    """Return the property string, with as much of the history as fits. Raises: ClientError."""
    kept = {name: value for name, value in letter.message.properties.items() if name not in NOT_KEPT}
    # Brokers before RocketMQ 5 store messages without a unique id. With one, a later resend finds that this was sent.
    kept[names.UNIQ_KEY] = letter.message.message_id
    if letter.origin_message_id is not None:
        kept[names.ORIGIN_MESSAGE_ID] = letter.origin_message_id
    if queue.topic == retry_topic(letter.group):
        kept[names.RETRY_TOPIC] = topic
    deaths = [*letter.earlier_deaths, letter.death]
    while deaths:
        encoded = format_properties({**kept, HISTORY: write_history(deaths)})
        if len(encoded) + BROKERS_BYTES_MAX <= PROPERTIES_BYTES_MAX:
            return encoded
        deaths = deaths[1:]
    words = f"its properties leave no room for {HISTORY}: the limit for all properties is {PROPERTIES_BYTES_MAX} bytes"
    raise ClientError(words)


def is_resent_from(record: StoredRecord, letter: DeadLetter) -> bool:
    """Return whether a record is this letter sent again: the last death in its history is the letter's."""
    history = find_property(record.properties, HISTORY)
    deaths = read_history(None if history is None else history.decode("utf-8", "replace"))
    return deaths[-1:] == (letter.death,)


def fitting_queue(letter: DeadLetter, queues: list[MessageQueue], first: MessageQueue | None) -> MessageQueue:
    """Return the queue of a topic to send a letter to: always the same one while the queues don't change.

    `first`: the queue of its first record, which is preferred. Otherwise the queue is chosen by the sharding key, as in
    RocketMQ's hash selector; without one, letters are spread over the queues of the broker that stores them.
    """
    if first in queues:
        return first
    key = letter.message.get(names.SHARDING_KEY)
    if key is not None:
        return queues[abs(java_hash(key)) % len(queues)]
    near = [queue for queue in queues if queue.broker_name == letter.place.broker_name] or queues
    return near[letter.place.queue_offset % len(near)]


def in_words(counts: Mapping[str, int]) -> str:
    """Return `8 to orders, 4 to refunds`."""
    return ", ".join(f"{count:,} to {topic}" for topic, count in counts.items())
