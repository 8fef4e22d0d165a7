"""Decides what to do after a failed pull. Pure. RocketMQ: DefaultMQPushConsumerImpl's PullCallback.onException."""

from typing import NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.subscriptions import Subscription
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import Announce, FindBrokers, Instructions, tell
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import (
    AnswerTimeout,
    BrokerAnswer,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    StaticfireError,
)

# The pause after a broker's FLOW_CONTROL.
BUSY_PAUSE_MS = 20
# Brokers return these codes when they have lost this consumer's registration. A heartbeat registers it again.
FORGOTTEN_CODES = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.TOPIC_NOT_EXIST,
)


class PullFailure(NamedTuple):
    """The instructions, the pause before the next pull, and whether the topic or the broker is lost."""

    instructions: Instructions
    pause_ms: int
    has_lost_topic: bool = False
    has_lost_broker: bool = False


def judge_failure(
    error: StaticfireError, queue: MessageQueue, state: ConsumerState, pulled_with: Subscription | None
) -> PullFailure:
    """Return what follows from the error. `pulled_with`: the subscription that the pull was sent with."""
    pause_ms = state.settings.pull_error_pause_ms
    code = error.code if isinstance(error, BrokerAnswer) else None
    if code == ResponseCode.FLOW_CONTROL:
        return PullFailure([], BUSY_PAUSE_MS)
    if code == ResponseCode.SUBSCRIPTION_NOT_LATEST and state.wanted.get(queue.topic) is not pulled_with:
        return PullFailure([], 0)  # It has changed since the pull was sent.
    out: Instructions = [Announce()] if code in FORGOTTEN_CODES else []
    if code == ResponseCode.TOPIC_NOT_EXIST:
        return PullFailure(out, pause_ms, has_lost_topic=True)
    out.append(tell("pull_failed", group=state.group, queue=str(queue), kind=kind_of(error), reason=str(error)))
    if isinstance(error, NetworkError):
        out.append(FindBrokers())
    return PullFailure(out, pause_ms, has_lost_broker=isinstance(error, NetworkError))


def kind_of(error: StaticfireError) -> str:
    """Return how far the failed pull got."""
    if isinstance(error, ConnectFailed):
        return "not sent"
    if isinstance(error, AnswerTimeout):
        return "no response in time"
    if isinstance(error, ConnectionLost):
        return "connection lost"
    return "refused" if isinstance(error, BrokerAnswer) else "other"
