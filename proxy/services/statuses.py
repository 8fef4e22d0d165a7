"""How calls end: nearly always with a normal response whose status has a code and a message.

A service raises `StatusError` for an error that it finds itself. This module makes statuses of the errors of brokers
and the network. RocketMQ: ResponseBuilder.
"""

from staticfire.protocol.codes import ResponseCode, name_of_response
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, ProtocolError, StaticfireError, TopicNotFound
from staticfire.proxy.proto.rocketmq_v2_pb2 import Code, Status
from staticfire.runtime.log import logger

log = logger("proxy")

_FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

_CODE_OF_RESPONSE: dict[int, Code] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
}
"""All other codes of brokers become INTERNAL_SERVER_ERROR."""

OK = "OK"
_OK_CODE = Code.OK
TOO_MANY_ANSWERS = "the entries have different results: see the status of each entry"


class StatusError(StaticfireError):
    """Ends a call with this status."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def ok() -> Status:
    """Return the status of a success."""
    return Status(code=_OK_CODE, message=OK)


def status_of(error: Exception) -> Status:
    """Return the status for an error. Unexpected exceptions are logged."""
    if isinstance(error, StatusError):
        return Status(code=error.code, message=error.message)
    if isinstance(error, TopicNotFound):
        return Status(code=Code.TOPIC_NOT_FOUND, message=f"CODE: {error.code}  DESC: {error.remark}{_FAQ}")
    if isinstance(error, BrokerAnswer):
        return refused(error.code, error.remark)
    if isinstance(error, AnswerTimeout):
        return Status(code=Code.PROXY_TIMEOUT, message=str(error))
    if isinstance(error, StaticfireError):
        return Status(code=Code.INTERNAL_SERVER_ERROR, message=str(error))
    log.error("call_failed", error=repr(error))
    return Status(code=Code.INTERNAL_SERVER_ERROR, message=f"{type(error).__name__}: {error}")


def refused(code: int, remark: str | None) -> Status:
    """Return the status for a broker's refusal."""
    words = remark or f"{code} ({name_of_response(code)})"
    return Status(code=_CODE_OF_RESPONSE.get(code, Code.INTERNAL_SERVER_ERROR), message=words)


def overall(statuses: list[Status]) -> Status:
    """Return the overall status of several: their common one, or MULTIPLE_RESULTS if they differ."""
    if all(one.code == statuses[0].code for one in statuses):
        return statuses[0]
    return Status(code=Code.MULTIPLE_RESULTS, message=TOO_MANY_ANSWERS)


def invalid_handle(words: str) -> StatusError:
    """Return the error for a receipt handle that is invalid or expired."""
    return StatusError(Code.INVALID_RECEIPT_HANDLE, f"org.apache.rocketmq.proxy.common.ProxyException: {words}")


def unreadable(error: ProtocolError) -> StatusError:
    """Return the error for a value that can't be parsed."""
    return StatusError(Code.INTERNAL_SERVER_ERROR, str(error))
