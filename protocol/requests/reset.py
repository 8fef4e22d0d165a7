"""A server as if it were new: what a test asks for between two cases. staticfire's own, not RocketMQ's."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request


class Forgotten(msgspec.Struct, rename="camel", gc=False):
    """What a broker had and has no more."""

    topics: list[str] = []
    groups: list[str] = []


class ResetAnswer(Answer, rename="camel"):
    """What was forgotten. The nameserver keeps its routes until somebody deletes them there."""

    body_type: ClassVar[Any] = Forgotten


@request(RequestCode.RESET, answer=ResetAnswer)
class Reset(Request, rename="camel"):
    """Forget all messages, the topics and groups that aren't the system's, all offsets; a nameserver: its KV config."""
