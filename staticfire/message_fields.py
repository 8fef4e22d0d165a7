"""A message and its state in consumer groups, as JSON fields: the same names on the command line and over HTTP."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.client import GroupConsumption, ReceivedMessage, SendResult


def message_fields(message: "ReceivedMessage") -> dict[str, Any]:
    """Return all fields of a message. Bytes of the body that aren't UTF-8 are escaped."""
    return {
        "topic": message.topic,
        "messageId": message.message_id,
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "storedMs": message.stored_ms,
        "bornMs": message.born_ms,
        "bornHost": message.born_host,
        "tags": message.tags,
        "keys": list(message.keys),
        "reconsumeTimes": message.reconsume_times,
        "properties": dict(message.properties),
        "body": message.body.decode("utf-8", "backslashreplace"),
    }


def sent_fields(result: "SendResult") -> dict[str, Any]:
    """Return the place where a sent message is stored."""
    return {
        "messageId": result.message_id,
        "status": result.status.value,
        "topic": result.queue.topic,
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
    }


def standing_fields(groups: "Iterable[GroupConsumption]") -> list[dict[str, Any]]:
    """Return the state of one message in each group that consumes its topic."""
    return [
        {"group": one.group, "state": one.state.value, "committed": one.committed, "online": one.is_online}
        for one in groups
    ]
