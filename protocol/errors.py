"""Every exception of staticfire, in one tree, by what the caller can do about it.

`ProtocolError`   the bytes are wrong: their connection is closed `NetworkError`    no connection, a lost one, or no
response in time: try another broker, or try again later `BrokerAnswer`    the peer refused: `code` and `remark` give
the reason, `retryable` whether to try again `StorageError`    the disk failed: nothing was stored `ClientError`
this program requested something that isn't possible `UsageError`      a flag, a setting or an address is wrong: one
line for the user, exit code 2
"""

from staticfire.protocol.codes import ResponseCode, name_of_response


class StaticfireError(Exception):
    """Base class of all errors that staticfire raises."""


class ProtocolError(StaticfireError):
    """Bytes that are not a valid frame, header, body or record of the protocol."""


class NetworkError(StaticfireError):
    """The peer sent no response."""


class ConnectFailed(NetworkError):
    """No connection to that address could be opened."""


class ConnectionLost(NetworkError):
    """The connection was lost before the response."""


class AnswerTimeout(NetworkError):
    """The response did not arrive in time. The request may have been performed nevertheless."""


class StorageError(StaticfireError):
    """The store failed; nothing was stored."""


class UsageError(StaticfireError):
    """A flag, a setting or an address that can't be used."""


class ClientError(StaticfireError):
    """The program requested something from the client that isn't possible."""


class NoMaster(ClientError):
    """A topic's brokers have only slaves now, which accept no messages: try again later."""


class BrokerAnswer(StaticfireError):
    """The peer refused: `code` is RocketMQ's response code, `remark` its text.

    The same class is used on both sides: a handler raises it, the dispatcher sends it, the client raises it again.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = int(code)
        self.remark = remark

    def __str__(self) -> str:
        return f"{name_of_response(self.code)} ({self.code}): {self.remark}"

    @property
    def retryable(self) -> bool:
        """Whether a producer may retry on another broker (RocketMQ: retryResponseCodes)."""
        return self.code in RETRYABLE_CODES


RETRYABLE_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


class TopicNotFound(BrokerAnswer):
    """TOPIC_NOT_EXIST."""


class NoPermission(BrokerAnswer):
    """NO_PERMISSION."""


class MessageIllegal(BrokerAnswer):
    """MESSAGE_ILLEGAL: too large, or properties that can't be stored."""


class SystemBusy(BrokerAnswer):
    """SYSTEM_BUSY: try again later."""


class GroupNotFound(BrokerAnswer):
    """SUBSCRIPTION_GROUP_NOT_EXIST."""


class NotAtRest(BrokerAnswer):
    """NOT_AT_REST: consumers didn't settle in time. Message time stops at the last completed step."""


class ClockBusy(BrokerAnswer):
    """CLOCK_BUSY: another caller is moving message time."""


_CLASS_OF_CODE: dict[int, type[BrokerAnswer]] = {
    ResponseCode.TOPIC_NOT_EXIST: TopicNotFound,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.MESSAGE_ILLEGAL: MessageIllegal,
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFound,
    ResponseCode.NOT_AT_REST: NotAtRest,
    ResponseCode.CLOCK_BUSY: ClockBusy,
}


def broker_answer(code: int, remark: str | None, requested: str = "") -> BrokerAnswer:
    """Return the exception for a refusal. `requested` states what was requested, and from where."""
    words = remark or "no reason given"
    return _CLASS_OF_CODE.get(code, BrokerAnswer)(code, f"{words} [{requested}]" if requested else words)


def os_words(error: OSError) -> str:
    """Describe an operating system's error without its number: `/data/lock: Permission denied`."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename and str(error.filename) not in reason else reason
