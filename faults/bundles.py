"""A request with many messages, some refused by a rule: the others are handled, one response covers all. Pure.

staticfire's producers put messages that are sent at nearly the same time into one SEND_MANY. A rule about sends applies
to each of its messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from staticfire.protocol.codes import name_of_response
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.requests.faults import FaultRule
from staticfire.protocol.requests.send import ManyResult, SendMany

Refused = Mapping[int, FaultRule]


def without(request: SendMany, refused: Refused) -> SendMany:
    """Return the request without the refused messages."""
    left = [message for index, message in enumerate(request.body) if index not in refused]
    return msgspec.structs.replace(request, body=left)


def together(results: Sequence[Any], refused: Refused) -> list[Any]:
    """Return one result per message: the results of the handled messages in order, with the refusals in between."""
    others = iter(results)
    count = len(results) + len(refused)
    return [refusal_of(refused[index]) if index in refused else next(others) for index in range(count)]


def refusal_of(rule: FaultRule) -> ManyResult:
    """Return the result for a message that a rule refuses."""
    return ManyResult(rule.answer_code, -1, -1, -1, remark_of(rule))


def with_codes(results: Sequence[ManyResult], refused: Refused) -> list[ManyResult]:
    """Return the results, with the code of a rule for stored messages that it is about."""
    return [
        msgspec.structs.replace(result, code=refused[index].answer_code, remark=remark_of(refused[index]))
        if index in refused and result.code == SUCCESS
        else result
        for index, result in enumerate(results)
    ]


def remark_of(rule: FaultRule) -> str:
    """Return the remark of a rule; if it has none, a text that identifies the rule."""
    return rule.remark or f"{name_of_response(rule.answer_code)} by fault rule {rule.number}"
