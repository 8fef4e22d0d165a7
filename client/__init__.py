"""The client: producers, consumers, administration; asyncio, for staticfire's brokers and Apache RocketMQ's.

Names are imported when they are first asked for, so that `import staticfire.client` costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from staticfire.client.admin.admin import Admin as Admin
    from staticfire.client.admin.clock import ClockReport as ClockReport, ClusterClock as ClusterClock
    from staticfire.client.cluster.cluster_client import ClusterClient as ClusterClient
    from staticfire.client.cluster.queues import MessageQueue as MessageQueue
    from staticfire.client.cluster.settings import (
        ClientSettings as ClientSettings,
        ProducerSettings as ProducerSettings,
        PullSettings as PullSettings,
    )
    from staticfire.client.consume.consume_results import (
        ConsumeContext as ConsumeContext,
        ConsumeStatus as ConsumeStatus,
    )
    from staticfire.client.consume.ordered_results import (
        OrderedContext as OrderedContext,
        OrderedStatus as OrderedStatus,
    )
    from staticfire.client.consume.pull import PullConsumer as PullConsumer
    from staticfire.client.consume.pull_answers import PullResult as PullResult, PullStatus as PullStatus
    from staticfire.client.consume.push_consumer import PushConsumer as PushConsumer
    from staticfire.client.consume.push_settings import (
        ConsumeFromWhere as ConsumeFromWhere,
        MessageModel as MessageModel,
        PushSettings as PushSettings,
    )
    from staticfire.client.produce.producer import Producer as Producer
    from staticfire.client.produce.selectors import by_hash as by_hash
    from staticfire.client.produce.send_result import SendResult as SendResult, SendStatus as SendStatus
    from staticfire.protocol.messages import Message as Message, ReceivedMessage as ReceivedMessage

_HOMES = {
    "Admin": "staticfire.client.admin.admin",
    "ClientSettings": "staticfire.client.cluster.settings",
    "ClockReport": "staticfire.client.admin.clock",
    "ClusterClient": "staticfire.client.cluster.cluster_client",
    "ClusterClock": "staticfire.client.admin.clock",
    "ConsumeContext": "staticfire.client.consume.consume_results",
    "ConsumeFromWhere": "staticfire.client.consume.push_settings",
    "ConsumeStatus": "staticfire.client.consume.consume_results",
    "Message": "staticfire.protocol.messages",
    "MessageModel": "staticfire.client.consume.push_settings",
    "MessageQueue": "staticfire.client.cluster.queues",
    "OrderedContext": "staticfire.client.consume.ordered_results",
    "OrderedStatus": "staticfire.client.consume.ordered_results",
    "Producer": "staticfire.client.produce.producer",
    "ProducerSettings": "staticfire.client.cluster.settings",
    "PullConsumer": "staticfire.client.consume.pull",
    "PullResult": "staticfire.client.consume.pull_answers",
    "PullSettings": "staticfire.client.cluster.settings",
    "PullStatus": "staticfire.client.consume.pull_answers",
    "PushConsumer": "staticfire.client.consume.push_consumer",
    "PushSettings": "staticfire.client.consume.push_settings",
    "ReceivedMessage": "staticfire.protocol.messages",
    "SendResult": "staticfire.client.produce.send_result",
    "SendStatus": "staticfire.client.produce.send_result",
    "by_hash": "staticfire.client.produce.selectors",
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
