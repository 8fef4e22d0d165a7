"""How a message's properties are stored: the quick way of the usual string ends where the careful way does."""

import pytest
from hypothesis import example, given, strategies as st

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
NAMES = ["UNIQ_KEY", "TAGS", "XTAGS", "XUNIQ_KEY", "KEYS", "DELAY", "CLUSTER", "MSG_REGION", "TRACE_ON", "POP_CK", "ä"]
UNIQUE_ID = "7F0000010539736EDB5F1234ABCD0007"

sending = Sending(Broker(live_machine(), BrokerSettings(store_path_root_dir="never opened")).state)

pieces = st.sampled_from([*NAMES, "\x01", "\x02", "paid", "é", ""])
usual = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["a", "paid", "", UNIQUE_ID, "x\x01y"])), max_size=6)
strings = st.lists(pieces, max_size=14).map("".join) | usual.map(
    lambda entries: "".join([f"{name}\x01{value}\x02" for name, value in entries])
)


def but_for_made_ids(prepared: Prepared, text: str) -> tuple[object, ...]:
    """Everything that is the same each time: a unique id that had to be made isn't."""
    properties, unique_id, code, is_delayed = prepared
    made = unique_id not in text
    return properties.replace(unique_id.encode(), b"made") if made else properties, made, code, is_delayed


@given(strings)
@example("TAGS\x01paid\x02UNIQ_KEY\x01" + UNIQUE_ID + "\x02")
@example("UNIQ_KEY\x01" + UNIQUE_ID + "\x02XTAGS\x01paid\x02")
@example("UNIQ_KEY\x01\x02TAGS\x01a\x02TAGS\x01\x02")
@example("UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02TAGS\x01c")
def test_the_quick_way_ends_where_the_careful_one_does(text: str) -> None:
    careful = sending._prepare_slow_path(text.encode())
    assert but_for_made_ids(sending.prepare(text, BODY), text) == but_for_made_ids(careful, text)


@given(st.binary(max_size=40) | strings.map(str.encode))
@example(b"TAGS\x01\xff\x02UNIQ_KEY\x01a\x02")
def test_properties_that_came_as_bytes_are_stored_as_the_same_bytes(encoded: bytes) -> None:
    properties, unique_id, code, _ = sending.prepare(encoded.decode("latin-1"), BODY, encoded)
    expected, expected_id, expected_code, _ = sending._prepare_slow_path(encoded)
    assert (code, properties) == (expected_code, expected.replace(expected_id.encode(), unique_id.encode()))


def test_a_usual_message_keeps_its_properties_and_gets_those_of_the_broker() -> None:
    text = f"KEYS\x01order-1\x02UNIQ_KEY\x01{UNIQUE_ID}\x02TAGS\x01paid\x02"
    assert sending.prepare(text, BODY) == ((text + ADDED).encode(), UNIQUE_ID, java_hash("paid"), False)


def test_what_only_brokers_say_is_taken_out_of_a_message_that_is_sent_again() -> None:
    text = f"MSG_REGION\x01elsewhere\x02UNIQ_KEY\x01{UNIQUE_ID}\x02TRACE_ON\x01false\x02POP_CK\x011 2 3\x02"
    stored, *_ = sending.prepare(text, BODY)
    assert stored.decode() == f"UNIQ_KEY\x01{UNIQUE_ID}\x02{ADDED}"


def test_a_message_without_a_unique_id_gets_one() -> None:
    stored, unique_id, *_ = sending.prepare("TAGS\x01paid", BODY)
    assert parse_properties(stored)["UNIQ_KEY"] == unique_id
    assert len(unique_id) == 32
    assert sending.prepare("TAGS\x01paid", BODY)[1] != unique_id


def test_a_message_that_may_wait_is_marked() -> None:
    assert sending.prepare(f"DELAY\x013\x02UNIQ_KEY\x01{UNIQUE_ID}\x02", BODY)[3]
    assert sending.prepare("DELAY\x013\x02", BODY)[3]


@pytest.mark.parametrize("text", ["K\x01" + "v" * PROPERTIES_BYTES_MAX, "K\x01" + "é" * (PROPERTIES_BYTES_MAX // 2)])
def test_properties_that_are_too_long_are_refused(text: str) -> None:
    with pytest.raises(BrokerAnswer, match="properties length"):
        sending.prepare(text, BODY)


def test_a_body_that_is_empty_or_too_large_is_refused() -> None:
    with pytest.raises(BrokerAnswer, match="body is empty"):
        sending.prepare("", b"")
    with pytest.raises(BrokerAnswer, match="body length limit"):
        sending.prepare("", bytes(sending.body_bytes_max + 1))
