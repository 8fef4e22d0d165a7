"""Refuse messages that request what is not implemented or turned off, so that they are not stored as something else.

RocketMQ refuses the same with timerWheelEnable=false and rejectTransactionMessage=true, with these codes and remarks.
"""

from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.delay_levels import requested_level
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.properties import (
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRAN_MSG,
    find_property,
)
from staticfire.protocol.sys_flag import INNER_BATCH, enters_consume_queue


def refuse_not_built(
    properties: bytes, sys_flag: int, reconsume_times: int, settings: BrokerSettings, host_ip: str
) -> None:
    """Refuse a batch in one message; if a setting requires it, also parts of a transaction and delivery times.

    Half messages are accepted here: a caller that can't store one must refuse it. Raises: BrokerAnswer.
    """
    half = is_half(properties, reconsume_times)
    if settings.reject_transaction_message and (half or not enters_consume_queue(sys_flag)):
        raise BrokerAnswer(
            ResponseCode.NO_PERMISSION, f"the broker[{host_ip}] sending transaction message is forbidden"
        )
    if not half and not enters_consume_queue(sys_flag):
        words = "the sysFlag marks a half message, but TRAN_MSG is missing: no consumer would get it"
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
    if sys_flag & INNER_BATCH:
        words = "the sysFlag marks a batch in one message, which only queues of the type BatchCQ can store"
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
    if not settings.timer_wheel_enable and asks_for_a_time(properties):
        words = (
            "accurate timer message is not enabled, timerWheelEnable is false: only delay levels (DELAY) are possible"
        )
        raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)


def is_half(properties: bytes, reconsume_times: int) -> bool:
    """Return whether it is a half message. Clients before 4.6.1 leave the mark in messages for a retry."""
    if b"TRAN_MSG\x01" not in properties:
        return False
    marked = (find_property(properties, TRAN_MSG) or b"").lower() == b"true"
    return marked and not (reconsume_times > 0 and requested_level(properties) > 0)


def asks_for_a_time(properties: bytes) -> bool:
    """Return whether a message requests a delivery time other than a delay level. RocketMQ: checkIfTimerMessage.

    Raises: BrokerAnswer (its level is no number).
    """
    if b"TIMER_DEL" not in properties or find_property(properties, TIMER_OUT_MS) is not None:
        return False
    named = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
    return requested_level(properties) <= 0 and any(find_property(properties, name) is not None for name in named)
