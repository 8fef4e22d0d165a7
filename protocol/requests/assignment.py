"""The assignment of queues to clients by brokers, and whether a group uses pull or POP.

RocketMQ: QueryAssignmentRequestBody, SetMessageRequestModeRequestBody, MessageQueueAssignment.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32
from staticfire.protocol.requests.locks import MessageQueue

MODE_PULL, MODE_POP = "PULL", "POP"


class AssignmentQuestion(msgspec.Struct, rename="camel", gc=False):
    """The requesting client. `message_model`: CLUSTERING or BROADCASTING; `strategy_name`: AVG or AVG_BY_CIRCLE."""

    topic: str
    message_model: str
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None


class QueueAssignment(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A queue for the requesting client. In a POP assignment, queue id -1 means all queues of that broker."""

    message_queue: MessageQueue
    mode: str | None = None


class QueueAssignments(msgspec.Struct, rename="camel", gc=False):
    """The client's queues. None: no result, so the client keeps its queues."""

    message_queue_assignments: list[QueueAssignment] | None = None


class AssignmentAnswer(Answer, rename="camel"):
    """The client's queues."""

    body_type: ClassVar[Any] = QueueAssignments


@request(RequestCode.QUERY_ASSIGNMENT, answer=AssignmentAnswer)
class QueryAssignment(Request, rename="camel"):
    """Ask which queues of a topic a client has, on all brokers."""

    bname: str | None = None
    body_type: ClassVar[Any] = AssignmentQuestion


class MessageRequestMode(msgspec.Struct, rename="camel", gc=False):
    """How a group receives the messages of a topic.

    `pop_share_queue_num`: from how many of the next clients one also gets the queues; 0 or less: each client gets all.
    """

    topic: str
    consumer_group: str | None = None
    mode: str | None = MODE_PULL
    pop_share_queue_num: Int32 = 0


@request(RequestCode.SET_MESSAGE_REQUEST_MODE)
class SetMessageRequestMode(Request, rename="camel"):
    """Have a group pull a topic, or pop it."""

    bname: str | None = None
    body_type: ClassVar[Any] = MessageRequestMode


class MessageRequestModes(msgspec.Struct, rename="camel", gc=False):
    """The configured modes, by topic and group."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = {}


class MessageRequestModesAnswer(Answer, rename="camel"):
    """The configured modes of all groups."""

    body_type: ClassVar[Any] = MessageRequestModes


@request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, answer=MessageRequestModesAnswer)
class GetMessageRequestModes(Request, rename="camel"):
    """Ask what was set for all groups."""
