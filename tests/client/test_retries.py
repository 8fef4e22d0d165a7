"""A failed message as its own next attempt, when no broker makes it."""

from typing import Any

import pytest

from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.consume.listeners.send_back import as_retry
from staticfire.client.produce.message_encoder import MessageEncoder
from staticfire.protocol.message_ids import UniqueIds
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import parse_properties
from staticfire.protocol.times import MessageMs
from tests.client.received import received

pytestmark = pytest.mark.row("A2")


def sent(message: ReceivedMessage) -> dict[str, str]:
    """Return the properties that travel."""
    encoder = MessageEncoder(ProducerSettings(), UniqueIds(bytes(4), 1, 2))
    retry = as_retry(message, "billing", 16)
    encoder.check(retry)
    wire, _ = encoder.wrap(retry, MessageMs(0))
    assert wire.topic == "%RETRY%billing"
    assert wire.body == message.body
    return parse_properties(wire.properties)


def test_it_keeps_what_it_is_and_says_where_it_comes_from() -> None:
    message = received(7, b"body", log_position=256, UNIQ_KEY="ABC", TAGS="paid", KEYS="1 2", own="value")
    assert sent(message) == {
        "WAIT": "true",
        "DELAY": "3",
        "UNIQ_KEY": "ABC",
        "TAGS": "paid",
        "KEYS": "1 2",
        "own": "value",
        "ORIGIN_MESSAGE_ID": "0A00000200002A9F0000000000000100",
        "RETRY_TOPIC": "orders",
        "RECONSUME_TIME": "1",
        "MAX_RECONSUME_TIMES": "16",
    }


def test_each_failure_waits_longer_and_the_first_id_stays() -> None:
    properties: dict[str, Any] = {
        "DELAY": "4",
        "ORIGIN_MESSAGE_ID": "FIRST",
        "RETRY_TOPIC": "orders",
        "TRAN_MSG": "true",
        "WAIT": "false",
    }
    message = received(7, reconsume_times=2, UNIQ_KEY="ABC", **properties)
    assert sent(message) == {
        "WAIT": "false",
        "DELAY": "5",
        "UNIQ_KEY": "ABC",
        "ORIGIN_MESSAGE_ID": "FIRST",
        "RETRY_TOPIC": "orders",
        "RECONSUME_TIME": "3",
        "MAX_RECONSUME_TIMES": "16",
    }
