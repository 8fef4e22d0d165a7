"""How a message's properties are stored. test_send_runs.py compares this with what the compiled version does."""

import pytest

from staticfire.broker.sends.sending import Prepared, Sending
from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.properties import parse_properties
from staticfire.protocol.tags import java_hash
from staticfire.runtime.live import live_machine

BODY = b"body"
ADDED = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
UNIQUE_ID = "7F0000010539736EDB5F1234ABCD0007"

sending = Sending(Broker(live_machine(), BrokerSettings(store_path_root_dir="never opened")).state)


def prepare(text: str, body: bytes = BODY) -> Prepared:
    return sending.prepare(text.encode(), body)


def test_a_usual_message_keeps_its_properties_and_gets_those_of_the_broker() -> None:
    text = f"KEYS\x01order-1\x02UNIQ_KEY\x01{UNIQUE_ID}\x02TAGS\x01paid\x02"
    assert prepare(text) == ((text + ADDED).encode(), UNIQUE_ID, java_hash("paid"), False)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("UNIQ_KEY\x01{}\x02XTAGS\x01paid\x02", ""),
        ("UNIQ_KEY\x01{}\x02TAGS\x01a\x02TAGS\x01\x02", "a"),
        ("TAGS\x01a\x02UNIQ_KEY\x01b\x02UNIQ_KEY\x01{}\x02TAGS\x01c", "c"),
        ("UNIQ_KEY\x01{}\x02TAGS\x01é", "é"),
    ],
)
def test_the_last_value_that_is_not_empty_counts(text: str, tag: str) -> None:
    stored, unique_id, code, _ = prepare(text.format(UNIQUE_ID))
    assert (unique_id, code) == (UNIQUE_ID, java_hash(tag) if tag else 0)
    assert stored.decode() == text.format(UNIQUE_ID).removesuffix("\x02") + "\x02" + ADDED


def test_properties_that_are_no_text_are_stored_as_they_are() -> None:
    stored, unique_id, *_ = sending.prepare(b"TAGS\x01\xff\x02UNIQ_KEY\x01a\x02", BODY)
    assert (stored, unique_id) == (b"TAGS\x01\xff\x02UNIQ_KEY\x01a\x02" + ADDED.encode(), "a")


def test_what_only_brokers_say_is_taken_out_of_a_message_that_is_sent_again() -> None:
    text = f"MSG_REGION\x01elsewhere\x02UNIQ_KEY\x01{UNIQUE_ID}\x02TRACE_ON\x01false\x02POP_CK\x011 2 3\x02"
    stored, *_ = prepare(text)
    assert stored.decode() == f"UNIQ_KEY\x01{UNIQUE_ID}\x02{ADDED}"


def test_a_message_without_a_unique_id_gets_one() -> None:
    stored, unique_id, *_ = prepare("TAGS\x01paid")
    assert parse_properties(stored)["UNIQ_KEY"] == unique_id
    assert len(unique_id) == 32
    assert prepare("TAGS\x01paid")[1] != unique_id


def test_a_message_that_may_wait_is_marked() -> None:
    assert prepare(f"DELAY\x013\x02UNIQ_KEY\x01{UNIQUE_ID}\x02")[3]
    assert prepare("DELAY\x013\x02")[3]


@pytest.mark.parametrize("text", ["K\x01" + "v" * PROPERTIES_BYTES_MAX, "K\x01" + "é" * (PROPERTIES_BYTES_MAX // 2)])
def test_properties_that_are_too_long_are_refused(text: str) -> None:
    with pytest.raises(BrokerAnswer, match="properties length"):
        prepare(text)


def test_a_body_that_is_empty_or_too_large_is_refused() -> None:
    with pytest.raises(BrokerAnswer, match="body is empty"):
        prepare("", b"")
    with pytest.raises(BrokerAnswer, match="body length limit"):
        prepare("", bytes(sending.body_bytes_max + 1))
