"""The end of a transaction, and the check whether it has ended. RocketMQ: EndTransactionRequestHeader."""

from collections.abc import Mapping
from typing import Any, ClassVar

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Records, Request, request
from staticfire.protocol.numbers import Int32, Int64


@request(RequestCode.END_TRANSACTION)
class EndTransaction(Request, rename="camel"):
    """End the half message at this place. `commit_or_rollback`: 0 unknown yet, 8 commit, 12 rollback."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool | None = None
    msg_id: str = ""
    transaction_id: str | None = None
    topic: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"msg_id": "", "commit_or_rollback": -1}


@request(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransaction(Request, rename="camel"):
    """From a broker to a producer: what has become of this one? The body is the half message."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    bname: str | None = None
    body_type: ClassVar[Any] = Records
