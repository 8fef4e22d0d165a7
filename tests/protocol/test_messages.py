"""What programs send and receive."""

from datetime import timedelta
from typing import Any

import pytest

from staticfire.protocol.errors import ClientError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.messages import (
    BODY_BYTES_MAX,
    Message,
    ReceivedMessage,
    check_message,
    encode_message_properties,
)
from staticfire.protocol.properties import parse_properties
from staticfire.protocol.record import decode_record, pack_record, pack_topic

STORE_HOST = pack_host("127.0.0.1", 20911)


def received(properties: bytes = b"TAGS\x01paid\x02KEYS\x0142 43\x02UNIQ_KEY\x01ABC\x02") -> ReceivedMessage:
    born_host = pack_host("10.0.0.7", 5000)
    record = decode_record(
        pack_record(
            2281,
            3,
            7,
            1_700_000_000_001,
            1_700_000_000_000,
            0,
            5,
            2,
            0,
            born_host,
            pack_topic("orders"),
            properties,
            b"hi",
        )
    )
    return ReceivedMessage(record, "broker-a", STORE_HOST)


def test_all_that_a_message_says_is_in_its_properties() -> None:
    message = Message(
        "orders", b"hi", tags="paid", keys=["42", "43"], properties={"colour": "rot"}, delay_level=3, sharding_key="s"
    )
    assert parse_properties(encode_message_properties(message, "ID")) == {
        "TAGS": "paid",
        "KEYS": "42 43",
        "UNIQ_KEY": "ID",
        "WAIT": "true",
        "DELAY": "3",
        "__SHARDINGKEY": "s",
        "colour": "rot",
    }


def test_a_plain_message_has_only_its_id_and_wait() -> None:
    assert encode_message_properties(Message("orders", b"hi"), "ID") == b"UNIQ_KEY\x01ID\x02WAIT\x01true\x02"
    assert encode_message_properties(Message("orders", b"hi", wait_stored=False), "") == b"WAIT\x01false\x02"


def test_any_delay_and_any_moment() -> None:
    delayed = encode_message_properties(Message("orders", b"hi", delay_ms=1500), "")
    timed = encode_message_properties(Message("orders", b"hi", deliver_ms=1_700_000_000_000), "")
    assert b"TIMER_DELAY_MS\x011500\x02" in delayed
    assert b"TIMER_DELIVER_MS\x011700000000000\x02" in timed


def test_one_key_may_stand_alone() -> None:
    assert Message("orders", b"hi", keys="42").keys == ("42",)
    assert Message("orders", b"hi", keys="").keys == ()


def test_the_client_may_set_what_programs_may_not() -> None:
    message = Message("%RETRY%g", b"hi")
    message.system_properties["RETRY_TOPIC"] = "orders"
    assert parse_properties(encode_message_properties(message, ""))["RETRY_TOPIC"] == "orders"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"body": "text"}, "the body is str, not bytes"),
        ({"tags": None}, "tags is NoneType"),
        ({"tags": "a\x02b"}, "tags contains"),
        ({"keys": ["a", ""]}, "a key is empty"),
        ({"keys": [42]}, "a key is int"),
        ({"flag": 2**31}, "32 bits"),
        ({"delay_level": -1}, "less than 0"),
        ({"delay_level": "3"}, "delay_level is str, not int"),
        ({"delay_ms": 1.5}, "delay_ms is float, not int"),
        ({"deliver_ms": timedelta(1)}, "deliver_ms is timedelta, not int"),
        ({"delay_level": 3, "delay_ms": 1}, "use only one of delay_level"),
        ({"properties": {"TAGS": "a"}}, "TAGS is reserved for RocketMQ"),
        ({"properties": {"colour": 1}}, "colour is int"),
        ({"properties": {1: "red"}}, "is int, not str"),
        ({"properties": {" ": "red"}}, "blank name or value"),
        ({"properties": {"colour": ""}}, "blank name or value"),
        ({"properties": {"col\x01our": "red"}}, "in its name"),
        ({"properties": {"colour": "re\x02d"}}, "colour contains"),
    ],
)
def test_what_a_record_cannot_carry_is_refused_when_the_message_is_made(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ClientError, match=words):
        Message("orders", **({"body": b"hi"} | arguments))


@pytest.mark.parametrize(
    ("topic", "body", "words"),
    [
        ("", b"hi", "is blank"),
        ("a b", b"hi", "illegal characters"),
        ("orders", b"", "empty body"),
        ("orders", bytes(11), "11 bytes, the limit is 10"),
    ],
)
def test_what_a_producer_refuses_to_send(topic: str, body: bytes, words: str) -> None:
    with pytest.raises(ClientError, match=words):
        check_message(Message(topic, body), body_bytes_max=10)


def test_the_largest_body_passes() -> None:
    check_message(Message("orders", bytes(BODY_BYTES_MAX)))


def test_properties_over_32767_bytes_are_refused() -> None:
    with pytest.raises(ClientError, match="the limit is 32767"):
        encode_message_properties(Message("orders", b"hi", keys="k" * 33_000), "")


def test_what_a_consumer_sees() -> None:
    message = received()
    assert (message.topic, message.body, message.flag, message.reconsume_times) == ("orders", b"hi", 5, 2)
    assert (message.queue_id, message.queue_offset, message.log_position) == (3, 7, 2281)
    assert (message.broker_name, message.store_host, message.born_host) == (
        "broker-a",
        "127.0.0.1:20911",
        "10.0.0.7:5000",
    )
    assert (message.stored_ms, message.born_ms) == (1_700_000_000_001, 1_700_000_000_000)
    assert (message.tags, message.keys, message.delay_level) == ("paid", ["42", "43"], 0)
    assert (message.message_id, message.offset_message_id) == ("ABC", "7F000001000051AF00000000000008E9")
    assert "ABC" in repr(message)


def test_a_message_without_properties_goes_by_its_offset_id() -> None:
    message = received(b"")
    assert message.message_id == message.offset_message_id
    assert (message.tags, message.keys, message.properties, message.transaction_id) == (None, [], {}, None)


def test_properties_are_the_same_dict_each_time_and_what_is_put_in_counts() -> None:
    message = received()
    assert message.get("MIN_OFFSET") is None
    message.properties["MIN_OFFSET"] = "5"
    assert message.properties is message.properties
    assert message.get("MIN_OFFSET") == "5"
    assert message.get("TAGS") == "paid"


def test_the_transaction_id_is_the_unique_id_of_a_transactional_message() -> None:
    assert received(b"TRAN_MSG\x01true\x02UNIQ_KEY\x01ABC\x02").transaction_id == "ABC"
    assert received(b"DELAY\x013\x02").delay_level == 3
