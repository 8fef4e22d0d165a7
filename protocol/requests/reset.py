"""Reset a server to an empty state, for example between two test cases. staticfire's own, not RocketMQ's."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request


class Forgotten(msgspec.Struct, rename="camel", gc=False):
    """What a broker has removed."""

    topics: list[str] = []
    groups: list[str] = []


class ResetAnswer(Answer, rename="camel"):
    """What was removed. The nameserver keeps its routes until a client deletes them there."""

    body_type: ClassVar[Any] = Forgotten


@request(RequestCode.RESET, answer=ResetAnswer)
class Reset(Request, rename="camel"):
    """Forget all messages, the topics and groups that aren't the system's, all offsets; a nameserver: its KV config."""

    only_settings: bool = False
    """Restore only the settings of the start: slaves copy all else."""
