"""The client: producers, consumers, administration; asyncio, for staticfire's brokers and Apache RocketMQ's.

Names are imported when they are first asked for, so that `import staticfire.client` costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from staticfire.client.admin import Admin as Admin
    from staticfire.client.clock import ClockReport as ClockReport, ClusterClock as ClusterClock
    from staticfire.client.cluster_client import ClusterClient as ClusterClient
    from staticfire.client.consume_results import ConsumeContext as ConsumeContext, ConsumeStatus as ConsumeStatus
    from staticfire.client.ordered_results import OrderedContext as OrderedContext, OrderedStatus as OrderedStatus
    from staticfire.client.producer import Producer as Producer
    from staticfire.client.pull import PullConsumer as PullConsumer
    from staticfire.client.pull_answers import PullResult as PullResult, PullStatus as PullStatus
    from staticfire.client.push_consumer import PushConsumer as PushConsumer
    from staticfire.client.push_settings import (
        ConsumeFromWhere as ConsumeFromWhere,
        MessageModel as MessageModel,
        PushSettings as PushSettings,
    )
    from staticfire.client.queues import MessageQueue as MessageQueue
    from staticfire.client.selectors import by_hash as by_hash
    from staticfire.client.send_result import SendResult as SendResult, SendStatus as SendStatus
    from staticfire.client.settings import (
        ClientSettings as ClientSettings,
        ProducerSettings as ProducerSettings,
        PullSettings as PullSettings,
    )
    from staticfire.protocol.messages import Message as Message, ReceivedMessage as ReceivedMessage

_HOMES = {
    "Admin": "staticfire.client.admin",
    "ClientSettings": "staticfire.client.settings",
    "ClockReport": "staticfire.client.clock",
    "ClusterClient": "staticfire.client.cluster_client",
    "ClusterClock": "staticfire.client.clock",
    "ConsumeContext": "staticfire.client.consume_results",
    "ConsumeFromWhere": "staticfire.client.push_settings",
    "ConsumeStatus": "staticfire.client.consume_results",
    "Message": "staticfire.protocol.messages",
    "MessageModel": "staticfire.client.push_settings",
    "MessageQueue": "staticfire.client.queues",
    "OrderedContext": "staticfire.client.ordered_results",
    "OrderedStatus": "staticfire.client.ordered_results",
    "Producer": "staticfire.client.producer",
    "ProducerSettings": "staticfire.client.settings",
    "PullConsumer": "staticfire.client.pull",
    "PullResult": "staticfire.client.pull_answers",
    "PullSettings": "staticfire.client.settings",
    "PullStatus": "staticfire.client.pull_answers",
    "PushConsumer": "staticfire.client.push_consumer",
    "PushSettings": "staticfire.client.push_settings",
    "ReceivedMessage": "staticfire.protocol.messages",
    "SendResult": "staticfire.client.send_result",
    "SendStatus": "staticfire.client.send_result",
    "by_hash": "staticfire.client.selectors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
