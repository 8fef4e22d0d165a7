"""What an answer to a pop says, and what is made of it."""

import pytest

from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.pop.acknowledging import ack_request, batch_requests, change_request
from staticfire.client.pop.popped import PoppedMessage, PopSource, PopStatus, read_pop, split_wanted
from staticfire.client.pop.receiving import PopTarget, pop_targets
from staticfire.protocol.batch_acks import read_entry
from staticfire.protocol.command import Answer, RecordBatch
from staticfire.protocol.errors import BrokerAnswer, ProtocolError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.pop_handles import PopHandle, format_handle
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import StoredRecord, decode_record, pack_record, pack_topic
from staticfire.protocol.requests.pop import PopAnswer
from staticfire.protocol.requests.routes import BrokerData, QueueData, TopicRouteData
from staticfire.protocol.tags import TagExpression
from staticfire.protocol.times import UptimeMs

HOST = pack_host("10.0.0.2", 10911)
REQUESTED = PopSource("billing", "orders", "broker-a", HOST)
NOW = UptimeMs(5_000)
RETRY = "%RETRY%billing_orders"

pytestmark = pytest.mark.row("G4")


def record(queue_id: int, queue_offset: int, topic: str = "orders", **properties: str) -> StoredRecord:
    packed = pack_record(
        queue_offset * 100, queue_id, queue_offset, 1, 1, 0, 0, 0, 0, HOST, pack_topic(topic),
        format_properties(properties), b"%d" % queue_offset,
    )  # fmt: skip
    return decode_record(packed)


def answer(*records: StoredRecord, starts: str = "", offsets: str = "", counts: str = "") -> PopAnswer:
    return PopAnswer(1_000, 30_000, 4, 7, starts, offsets, counts, body=RecordBatch(list(records)))


def popped(*records: StoredRecord, starts: str = "", offsets: str = "", counts: str = "") -> list[PoppedMessage]:
    return read_pop(answer(*records, starts=starts, offsets=offsets, counts=counts), REQUESTED, NOW).messages


def test_each_message_gets_its_handle() -> None:
    found = popped(record(1, 9), record(0, 4), record(1, 11), starts="0 1 8;0 0 4", offsets="0 1 9,11;0 0 4")
    assert [format_handle(message.handle) for message in found] == [
        "8 1000 30000 4 0 broker-a 1 9", "4 1000 30000 4 0 broker-a 0 4", "8 1000 30000 4 0 broker-a 1 11",
    ]  # fmt: skip
    assert {message.invisible_until_ms for message in found} == {NOW + 30_000}
    assert [message.first_popped_ms for message in found] == [1_000] * 3


def test_a_retry_brings_its_handle_along() -> None:
    own = "25 900 30000 4 1 broker-a 0 25"
    [message] = popped(record(0, 25, POP_CK=own, **{"1ST_POP_TIME": "123"}), starts="1 0 25", offsets="1 0 25")
    assert (format_handle(message.handle), message.topic, message.first_popped_ms) == (own, "orders", 123)
    request = ack_request("billing", "orders", message)
    assert (request.topic, request.queue_id, request.offset, request.extra_info) == (RETRY, 0, 25, own)


@pytest.mark.parametrize(("topic", "flag"), [(RETRY, 1), ("%RETRY%billing+orders", 2)])
def test_a_retry_as_it_lies_there(topic: str, flag: int) -> None:
    """From a broker that answers with the retry topic's own records."""
    [message] = popped(record(0, 3, topic), starts=f"{flag} 0 3", offsets=f"{flag} 0 3")
    assert (message.handle.flag, message.topic) == (flag, "orders")
    assert change_request("billing", "orders", message, 10).topic == topic


def test_a_message_that_the_answer_says_nothing_of_isnt_handed_out() -> None:
    result = read_pop(answer(record(0, 4), record(0, 5), record(2, 1), starts="0 0 4", offsets="0 0 4"), REQUESTED, NOW)
    assert ([message.queue_offset for message in result.messages], result.lost) == ([4], 2)
    assert result.reason == "the response has no entry for offset 5 in queue 0 of orders"
    spoilt = read_pop(answer(record(0, 4, POP_CK="1 2 3 4 0 b")), REQUESTED, NOW)
    assert (spoilt.messages, spoilt.lost) == ([], 1)


def test_messages_in_order_say_how_often_they_came() -> None:
    counts = "0 qo0%3 2;0 0 1"
    found = popped(record(0, 3), record(0, 4), starts="0 0 3", offsets="0 0 3,4", counts=counts)
    assert [message.reconsume_times for message in found] == [2, 1]


@pytest.mark.parametrize(
    ("code", "status"),
    [(209, PopStatus.POLLING_FULL), (210, PopStatus.POLLING_NOT_FOUND), (19, PopStatus.POLLING_NOT_FOUND)],
)
def test_nothing(code: int, status: PopStatus) -> None:
    result = read_pop(PopAnswer(rest_num=3, code=code, start_offset_info="", msg_offset_info=""), REQUESTED, NOW)
    assert (result.status, result.messages, result.rest) == (status, [], 3)


def test_refusals() -> None:
    with pytest.raises(BrokerAnswer, match=r"no permission.*pop orders of broker-a for billing"):
        read_pop(PopAnswer(code=16, remark="no permission"), REQUESTED, NOW)
    with pytest.raises(ProtocolError, match="has code 0 without any details"):
        read_pop(Answer(), REQUESTED, NOW)
    with pytest.raises(ProtocolError, match="parse startOffsetInfo error"):
        read_pop(answer(record(0, 1), starts="0 0", offsets="0 0 1"), REQUESTED, NOW)


def test_tags_of_the_same_hash_code_are_distinguished() -> None:
    found = popped(record(0, 1, TAGS="AaAa"), record(0, 2, TAGS="BBBB"), starts="0 0 1", offsets="0 0 1,2")
    wanted, others = split_wanted(found, TagExpression.parse("AaAa"))
    assert ([message.tags for message in wanted], [message.tags for message in others]) == (["AaAa"], ["BBBB"])
    assert split_wanted(found, None) == (found, [])


def test_many_messages_are_acknowledged_by_check_point_and_broker() -> None:
    found = popped(record(0, 4), record(0, 6), record(1, 9), starts="0 0 4;0 1 9", offsets="0 0 4,6;0 1 9")
    [elsewhere] = popped(record(0, 4), starts="0 0 4", offsets="0 0 4")
    elsewhere.handle = elsewhere.handle._replace(broker_name="broker-b")
    requests = batch_requests("billing", [*found, elsewhere], Namespace())
    assert {name: request.bname for name, (_, request) in requests.items()} == {n: n for n in ("broker-a", "broker-b")}
    read = [read_entry(entry, "broker-a") for entry in requests["broker-a"][1].body.acks]
    assert [(one.topic, one.handle.queue_id, one.queue_offsets) for one in read] == [
        ("orders", 0, (4, 6)), ("orders", 1, (9,)),
    ]  # fmt: skip


def test_a_changed_message_is_acknowledged_by_its_new_handle() -> None:
    found = popped(record(0, 4), record(0, 6), starts="0 0 4", offsets="0 0 4,6")
    found[1].handle = found[1].handle.changed(2_000, 500, 4)
    assert found[1].handle == PopHandle(6, 2_000, 500, 4, 0, "broker-a", 0, 6)
    [(_, request)] = batch_requests("billing", found, Namespace()).values()
    assert [entry["so"] for entry in request.body.acks] == [4, 6]


def test_where_a_topic_can_be_received_from() -> None:
    names = ("broker-b", "broker-a", "broker-c", "broker-d")
    route = TopicRouteData(
        broker_datas=[BrokerData("cluster", name, {0: name}) for name in names[:3]],
        queue_datas=[QueueData(name, 4, 4, 2 if name == "broker-c" else 6) for name in names],
    )
    assert pop_targets("orders", route) == [PopTarget("orders", "broker-a"), PopTarget("orders", "broker-b")]
