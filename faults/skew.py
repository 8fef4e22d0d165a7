"""Shift the times in a client's request, as if its clock were wrong, in any codec."""

from typing import Any

from staticfire.protocol.requests.clients import Heartbeat, HeartbeatData
from staticfire.protocol.requests.send import SendMany


def skew(request: Any, ms: int) -> None:
    """Shift the times in a request: the born times of messages, and the versions of subscriptions."""
    if isinstance(request, SendMany):
        for message in request.body or ():
            message.born_timestamp += ms
    elif isinstance(request, Heartbeat) and isinstance(request.body, HeartbeatData):
        for consumer in request.body.consumer_data_set:
            for subscription in consumer.subscription_data_set:
                subscription.sub_version += ms
    else:
        for field in ("born_timestamp", "sub_version"):
            value = getattr(request, field, None)
            if isinstance(value, int):
                setattr(request, field, value + ms)
