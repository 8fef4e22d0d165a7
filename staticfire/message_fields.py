"""A message, and how groups stand to it, as fields of JSON: the same names on the command line and over HTTP."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.client import GroupConsumption, ReceivedMessage


def message_fields(message: "ReceivedMessage") -> dict[str, Any]:
    """Return all that a message has. A body that is no UTF-8 is shown with its bytes escaped."""
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


def standing_fields(groups: "Iterable[GroupConsumption]") -> list[dict[str, Any]]:
    """Return how groups that consume a message's topic stand to it."""
    return [
        {"group": one.group, "state": one.state.value, "committed": one.committed, "online": one.is_online}
        for one in groups
    ]
