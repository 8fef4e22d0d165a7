"""Messages in full, and the groups that have consumed them, in the format of RocketMQ's mqadmin."""

import os
from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.java_text import bytes_text, lines_of, map_text, moment_ms, object_text
from staticfire.cli.mqadmin.output import file_name
from staticfire.client import ReceivedMessage
from staticfire.client.admin.consumption import ConsumptionState, GroupConsumption
from staticfire.client.cluster.pull_answers import PullResult

if TYPE_CHECKING:
    from staticfire.client import Admin

FIELD = "%-20s %s"
MIN_OFFSET, MAX_OFFSET = "MIN_OFFSET", "MAX_OFFSET"
# The size of a record without hosts, body, topic and properties.
FIXED_BYTES = 75
# The folder that RocketMQ uses; scripts read the files there.
BODIES = "/tmp/rocketmq/msgbodys"
TRACKS = {
    ConsumptionState.CONSUMED: "CONSUMED",
    ConsumptionState.FILTERED: "CONSUMED_BUT_FILTERED",
    ConsumptionState.NOT_YET: "NOT_CONSUME_YET",
    ConsumptionState.POPPED: "NOT_CONSUME_YET",
    ConsumptionState.UNKNOWN: "UNKNOWN",
}


def message_text(message: ReceivedMessage, body_path: str, with_id: bool, charset: str | None = None) -> str:
    """Return all fields of a message, one per line.

    `with_id`: include its offset message id. `charset`: include its body, decoded with this.
    """
    fields: dict[str, object] = {"OffsetID:": message.offset_message_id} if with_id else {}
    fields |= {
        "Topic:": message.topic,
        "Tags:": f"[{message.tags or 'null'}]",
        "Keys:": f"[{message.get('KEYS') or 'null'}]",
        "Queue ID:": message.queue_id,
        "Queue Offset:": message.queue_offset,
        "CommitLog Offset:": message.log_position,
        "Reconsume Times:": message.reconsume_times,
        "Born Timestamp:": moment_ms(message.born_ms),
        "Store Timestamp:": moment_ms(message.stored_ms),
        "Born Host:": message.born_host,
        "Store Host:": message.store_host,
        "System Flag:": message.sys_flag,
        "Properties:": map_text(message.properties),
        "Message Body Path:": body_path,
    }
    if charset is not None:
        fields["Message Body:"] = message.body.decode(charset, "replace")
    return lines_of(FIELD, *fields.items())


def write_body(message: ReceivedMessage, suffix: str = "") -> str:
    """Write a body to the place that RocketMQ uses. Return the path, or the reason why it wasn't written."""
    name = f"{_body_name(message)}{suffix}"
    try:
        os.makedirs(BODIES, exist_ok=True)
        folder = _open_folder(BODIES)
        try:
            place = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        with open(place, "wb") as file:
            file.write(message.body)
    except OSError as error:
        return f"not written: {error.strerror}"
    return f"{BODIES}/{name}"


def _body_name(message: ReceivedMessage) -> str:
    """Return the unique id; without one, or if its sender chose one that is no file name, the offset message id."""
    unique_id = message.get("UNIQ_KEY")
    return unique_id if unique_id and file_name(unique_id) == unique_id else message.offset_message_id


def _open_folder(path: str) -> int:
    """Open the folder of the bodies, without symbolic links below /tmp, where any user may create some."""
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return os.open(os.path.basename(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)


async def tracks_text(admin: "Admin", message: ReceivedMessage) -> str:
    """Return what the groups of a message's topic have done with it. RocketMQ: messageTrackDetail."""
    groups = await admin.consumption(message)
    if not groups:
        return "\nWARN: No Consumer"
    return "\n\n" + "\n".join([_track(one) for one in groups])


def _track(one: GroupConsumption) -> str:
    offline = f"CODE:206 DESC:the consumer group[{one.group}] not online"
    fields = {
        "consumerGroup": one.group,
        "trackType": TRACKS[one.state] if one.is_online else "NOT_ONLINE",
        "exceptionDesc": None if one.is_online else offline,
    }
    return object_text("MessageTrack ", fields, "[]")


def detail_text(message: ReceivedMessage) -> str:
    """Return a message on one line. RocketMQ: MessageExt.toString."""
    plain = {
        "topic": f"'{message.topic}'",
        "flag": message.flag,
        "properties": map_text(message.properties),
        "body": bytes_text(message.body),
        "transactionId": f"'{message.transaction_id or 'null'}'",
    }
    fields = {
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "storeSize": _stored_bytes(message),
        "queueOffset": message.queue_offset,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_ms,
        "bornHost": f"/{message.born_host}",
        "storeTimestamp": message.stored_ms,
        "storeHost": f"/{message.store_host}",
        "msgId": message.offset_message_id,
        "commitLogOffset": message.log_position,
        "bodyCRC": message.record.body_crc,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_position,
        "toString()": object_text("Message", plain),
    }
    return object_text("MessageExt ", fields, "[]")


def _stored_bytes(message: ReceivedMessage) -> int:
    """Return the size of a message's record in RocketMQ. staticfire's own records are a little longer."""
    record = message.record
    hosts = sum(len(host) for host in (record.born_host, message.store_host_packed))
    return FIXED_BYTES + hosts + len(record.body) + len(record.topic.encode()) + len(record.properties)


def with_ends(message: ReceivedMessage, result: PullResult) -> ReceivedMessage:
    """Add the properties in which RocketMQ's clients store the offset range of the message's queue."""
    message.properties.update({MIN_OFFSET: str(result.min_offset), MAX_OFFSET: str(result.max_offset)})
    return message


def printed_line(message: ReceivedMessage, charset: str, with_body: bool = True) -> str:
    """Return a message in the format of printMsg and consumeMessage."""
    body = message.body.decode(charset, "replace") if with_body else "NOT PRINT BODY"
    return f"MSGID: {message.message_id} {detail_text(message)} BODY: {body}"
