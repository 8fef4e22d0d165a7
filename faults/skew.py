"""What a client says of time, moved: as if its clock went wrong, whatever it is written in."""

from typing import Any

from staticfire.protocol.requests.clients import Heartbeat, HeartbeatData
from staticfire.protocol.requests.send import SendMany


def skew(request: Any, ms: int) -> None:
    """Move the times in a request: when messages were born, and how new subscriptions are."""
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
