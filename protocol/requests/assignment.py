"""Who takes which queues, decided by brokers; and whether by pulls or pops.

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
    """Who asks. `message_model`: CLUSTERING or BROADCASTING; `strategy_name`: AVG or AVG_BY_CIRCLE."""

    topic: str
    message_model: str
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None


class QueueAssignment(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A queue for the client that asked; queue id -1 of a POP assignment: all queues of that broker."""

    message_queue: MessageQueue
    mode: str | None = None


class QueueAssignments(msgspec.Struct, rename="camel", gc=False):
    """The client's queues. None: no result, the client keeps what it has."""

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
    """How a group gets the messages of a topic.

    `pop_share_queue_num`: of how many next clients one has the queues, too; 0 or less: everyone has all.
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
    """What was set, by topic and group."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = {}


class MessageRequestModesAnswer(Answer, rename="camel"):
    """What was set for all groups."""

    body_type: ClassVar[Any] = MessageRequestModes


@request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, answer=MessageRequestModesAnswer)
class GetMessageRequestModes(Request, rename="camel"):
    """Ask what was set for all groups."""
