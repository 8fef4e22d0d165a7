"""Queues that one client of a group has locked. RocketMQ: LockBatchRequestBody, UnlockBatchRequestBody."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32


class MessageQueue(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """One queue of a topic on one broker."""

    topic: str
    broker_name: str
    queue_id: Int32


class QueuesOfClient(msgspec.Struct, rename="camel", gc=False):
    """A client and some of its queues."""

    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockBatchResponseBody(msgspec.Struct, gc=False):
    """The queues that are locked for the client now."""

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(name="lockOKMQSet", default_factory=list)


class LockAnswer(Answer, rename="camel"):
    """The queues that were locked. It isn't an error if other clients have locked the rest."""

    body_type: ClassVar[Any] = LockBatchResponseBody


@request(RequestCode.LOCK_BATCH_MQ, answer=LockAnswer)
class LockQueues(Request, rename="camel"):
    """Lock queues for 60 s, or renew the locks."""

    bname: str | None = None
    body_type: ClassVar[Any] = QueuesOfClient


@request(RequestCode.UNLOCK_BATCH_MQ)
class UnlockQueues(Request, rename="camel"):
    """Give locks back."""

    bname: str | None = None
    body_type: ClassVar[Any] = QueuesOfClient
