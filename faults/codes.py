"""Codes by name or number, as users write them, and a suggestion if there is no such code."""

from difflib import get_close_matches
from enum import IntEnum
from functools import cache
from typing import Any

from staticfire.protocol.codecs.rocketmq import CODE_MAX
from staticfire.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.protocol.command import REQUESTS, Request
from staticfire.protocol.errors import UsageError

_SENDS = (
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MANY,
)  # fmt: skip
FAMILIES: dict[str, tuple[RequestCode, ...]] = {
    "SEND_MESSAGE": _SENDS,
    "PULL_MESSAGE": (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE),
    "SEND_REPLY_MESSAGE": (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
}
"""Names that mean several codes: clients send the same request in several forms. A number means one code."""
RULE_CODES = frozenset({RequestCode.ADD_FAULT, RequestCode.GET_FAULTS, RequestCode.REMOVE_FAULT})
"""The codes to which no rule applies, so that a user can always remove a rule."""
OF_SERVERS = frozenset(
    {
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        RequestCode.SET_BROKER_CLOCK,
        RequestCode.DELIVER_DUE,
        RequestCode.GET_REST,
    }
)
"""The requests that only servers send, to clients that have connected to them."""
SENT_BY_SERVERS = OF_SERVERS | {RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY}
"""All requests that servers send. Some of them are forwarded from a client."""
ANSWER_DIGITS_MAX = 9


def request_codes(text: str) -> list[int]:
    """Return the codes for a comma-separated list of names or numbers. Raises: UsageError."""
    codes: dict[int, None] = {}
    for one in text.split(","):
        codes |= dict.fromkeys(_request_codes(one.strip()))
    return list(codes)


def _request_codes(text: str) -> list[int]:
    name = text.upper()
    if name in FAMILIES:
        return [int(code) for code in FAMILIES[name]]
    code = _code(RequestCode, text, "request code")
    if code in RULE_CODES:
        raise UsageError(f"{RequestCode(code).name} adds and removes rules: rules can't hit it")
    if code not in REQUESTS:
        raise UsageError(f"{RequestCode(code).name} isn't supported: it is rejected without any rule")
    return [code]


def code_of(request: Request) -> int:
    """Return the code of a decoded request. In JSON, its class is derived from the declared one."""
    declared = _declared()
    return next((declared[kind] for kind in type(request).__mro__ if kind in declared), -1)


@cache
def _declared() -> dict[type[Any], int]:
    return {declaration.request.command: code for code, declaration in REQUESTS.items()}


def response_code(text: str) -> int:
    """Return the code of an error response. Numbers that are in no table are accepted, too. Raises: UsageError."""
    digits = text.removeprefix("-")
    is_number = digits.isdecimal() and digits.isascii()
    code = int(text[:ANSWER_DIGITS_MAX]) if is_number else _code(ResponseCode, text, "response code")
    if code == ResponseCode.SUCCESS:
        raise UsageError(
            "a rule can't respond with SUCCESS, because the result is missing; to execute a request "
            "without a response use --drop answer"
        )
    if not is_error_code(code):
        raise UsageError(f"answer={text[:30]}: codes are 1 to {CODE_MAX:,}")
    return code


def is_error_code(code: int) -> bool:
    """Return whether a code can be sent as an error: the ROCKETMQ header has a signed 16-bit number for it."""
    return 0 < code <= CODE_MAX


def language_code(text: str) -> int:
    """Return the code of a client's language. Raises: UsageError."""
    return _code(LanguageCode, text, "language")


def _code(kind: type[IntEnum], text: str, what: str) -> int:
    """Return the code of a name or a number. Raises: UsageError, with a suggestion."""
    try:
        return int(kind(int(text)) if text.isdecimal() and text.isascii() else kind[text.upper()])
    except (KeyError, ValueError):
        meant = get_close_matches(text.upper(), kind.__members__, 1, 0.6)
        advice = (
            f"did you mean {meant[0]}?" if meant else f"write its name, like {next(iter(kind)).name}, or its number"
        )
        raise UsageError(f"{text!r} is not a {what}; {advice}") from None
