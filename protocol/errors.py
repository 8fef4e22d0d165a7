"""Every exception of staticfire, in one tree, by what the caller can do about it.

`ProtocolError`   the bytes are wrong: the connection they came on is closed
`NetworkError`    no connection, a lost one, or no answer in time: another broker or another moment may do
`BrokerAnswer`    the peer said no: `code` and `remark` say why, `retryable` whether another try makes sense
`StorageError`    the disk said no: nothing was stored
`ClientError`     this program asked for something that can't be done
`UsageError`      a flag, a setting or an address is wrong: one line for a person, exit code 2
"""

from staticfire.protocol.codes import ResponseCode, name_of_response


class StaticfireError(Exception):
    """What staticfire raises."""


class ProtocolError(StaticfireError):
    """Bytes that are no frame, header, body or record of the protocol."""


class NetworkError(StaticfireError):
    """No answer came from the other side."""


class ConnectFailed(NetworkError):
    """Nobody answers at that address."""


class ConnectionLost(NetworkError):
    """The connection broke before the answer."""


class AnswerTimeout(NetworkError):
    """The answer did not come in time; the request may have been carried out all the same."""


class StorageError(StaticfireError):
    """The store could not do it; nothing was stored."""


class UsageError(StaticfireError):
    """A flag, a setting or an address that can't be used."""


class ClientError(StaticfireError):
    """What the program asked of the client can't be done."""


class BrokerAnswer(StaticfireError):
    """The peer refused: `code` is RocketMQ's response code, `remark` its words.

    The same class travels both ways: a handler raises it, the dispatcher sends it, the client raises it again.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = int(code)
        self.remark = remark

    def __str__(self) -> str:
        return f"{name_of_response(self.code)} ({self.code}): {self.remark}"

    @property
    def retryable(self) -> bool:
        """Whether a producer may try the same on another broker (RocketMQ: retryResponseCodes)."""
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
    """NOT_AT_REST: consumers didn't settle in time; message time stays at the last completed step."""


class ClockBusy(BrokerAnswer):
    """CLOCK_BUSY: somebody else moves message time now."""


_CLASS_OF_CODE: dict[int, type[BrokerAnswer]] = {
    ResponseCode.TOPIC_NOT_EXIST: TopicNotFound,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.MESSAGE_ILLEGAL: MessageIllegal,
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFound,
    ResponseCode.NOT_AT_REST: NotAtRest,
    ResponseCode.CLOCK_BUSY: ClockBusy,
}


def broker_answer(code: int, remark: str | None, asked: str = "") -> BrokerAnswer:
    """Return the exception for a refusal. `asked` says what was asked for, and of whom."""
    words = remark or "no reason given"
    return _CLASS_OF_CODE.get(code, BrokerAnswer)(code, f"{words} [{asked}]" if asked else words)


def os_words(error: OSError) -> str:
    """Say what an operating system's error is about, without its number: `/data/lock: Permission denied`."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename and str(error.filename) not in reason else reason
