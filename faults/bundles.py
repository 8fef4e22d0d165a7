"""Many messages of one request, some of which a rule refuses: the others go on, and all are answered together. Pure.

staticfire's producers send what a moment brings in one SEND_MANY; a rule about sends means each of its messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from staticfire.protocol.codes import name_of_response
from staticfire.protocol.requests.faults import FaultRule
from staticfire.protocol.requests.send import ManyResult, SendMany

Refused = Mapping[int, FaultRule]


def without(request: SendMany, refused: Refused) -> SendMany:
    """Return a request with the messages that aren't refused."""
    left = [message for index, message in enumerate(request.body) if index not in refused]
    return msgspec.structs.replace(request, body=left)


def together(results: Sequence[Any], refused: Refused) -> list[Any]:
    """Return one result per message: those of the others in their order, refusals between them."""
    others = iter(results)
    count = len(results) + len(refused)
    return [refusal_of(refused[index]) if index in refused else next(others) for index in range(count)]


def refusal_of(rule: FaultRule) -> ManyResult:
    """Return what a message is answered that a rule refuses."""
    return ManyResult(rule.answer_code, -1, -1, -1, remark_of(rule))


def remark_of(rule: FaultRule) -> str:
    """Return a rule's words; without any, which rule it is."""
    return rule.remark or f"{name_of_response(rule.answer_code)} by fault rule {rule.number}"
