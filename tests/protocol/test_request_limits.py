"""What one request may cost whoever reads it: bytes of its body, and steps of JSON that isn't standard.

Counted, not timed. `python -m benchmarks.parts.request_decoding` measures the worst that the limits let through.
"""

from typing import Any

import msgspec
import pytest

from staticfire.protocol import (
    fastjson,
    requests as _declarations,  # noqa: F401 (fills REQUESTS)
)
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import REQUESTS, Answer, Records, Request, answer_shape
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.fastjson_reader import read_lenient
from staticfire.protocol.frame_reader import FrameReader, Routes
from staticfire.protocol.limits import (
    FRAME_BYTES_MAX,
    HEARTBEAT_GROUPS_MAX,
    LENIENT_ANSWER_STEPS_MAX,
    LENIENT_STEPS_MAX,
    SEND_MANY_TAKEN_MAX,
    TABLE_BYTES_MAX,
)
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, ProducerData, SubscriptionData
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.connections import ConsumerRunningInfo, ProcessQueueInfo, RunningInfoAnswer
from staticfire.protocol.requests.locks import LockQueues, MessageQueue
from staticfire.protocol.requests.routes import GetClusterInfo
from staticfire.protocol.requests.send import ManyMessage, SendMany

Outcome = tuple[str, str]
"""The name of what was handled and the remark of what was refused; one of them is empty."""


def outcomes(*frames: bytes) -> list[Outcome]:
    """Return how the requests of one connection end."""
    routes, heard = Routes(), list[Outcome]()

    def handle(request: Any) -> Answer:
        return Answer(remark=type(request).__name__)

    for code in REQUESTS:
        routes.add(code, handle)
    reader = FrameReader(routes, lambda request, *_: request, None, lambda _: None)
    reader.receive(b"".join(frames))
    for handler, call in reader.calls(1 << 62) or []:
        answer = handler(call)
        assert answer is not None
        heard.append((answer.remark or "", "") if answer.code == 0 else ("", answer.remark or ""))
    return heard


def framed(request: Request, codec: int, body: bytes) -> bytes:
    """A frame with a body that no encoder would write."""
    request.body = None
    whole = codec_for(codec).encode_request(request, 1, False)
    return (int.from_bytes(whole[:4], "big") + len(body)).to_bytes(4, "big") + whole[4:] + body


@pytest.mark.parametrize("codec", [JSON, NATIVE])
def test_a_body_over_its_requests_limit_is_refused_in_words_and_the_next_request_is_read(codec: int) -> None:
    good = codec_for(codec).encode_request(GetClusterInfo(), 2, False)
    for request in (Heartbeat(), LockQueues(), UpdateBrokerConfig()):
        declaration = next(each for each in REQUESTS.values() if each.request.command is type(request))
        limit = declaration.request.body_bytes_max
        (_, refused), after = outcomes(framed(request, codec, bytes(limit + 1)), good)
        assert (
            refused == f"{declaration.name}: a body of {limit + 1} bytes is over the limit of {limit} for this request"
        )
        assert after == ("GetClusterInfo", "")


@pytest.mark.parametrize("codec", [JSON, NATIVE])
def test_a_heartbeat_of_a_thousand_groups_with_ten_topics_each_is_taken(codec: int) -> None:
    topics = [f"a-topic-with-the-long-name-that-large-companies-give-{number:>05}" for number in range(10)]
    consumers = [
        ConsumerData(
            f"a-group-with-quite-a-long-name-too-{number}",
            "CONSUME_PASSIVELY",
            "CLUSTERING",
            "CONSUME_FROM_LAST_OFFSET",
            [
                SubscriptionData(topic, "created || paid", ["created", "paid"], [1028554472, 3433164])
                for topic in topics
            ],
        )
        for number in range(1_000)
    ]
    frame = codec_for(codec).encode_request(Heartbeat(body=HeartbeatData("client@1", [], consumers)), 1, False)
    assert outcomes(frame) == [("Heartbeat", "")]


@pytest.mark.parametrize("codec", [JSON, NATIVE])
@pytest.mark.parametrize(
    ("data", "where"),
    [
        (HeartbeatData("c", [ProducerData("p")] * (HEARTBEAT_GROUPS_MAX + 1)), "producerDataSet"),
        (HeartbeatData("c", [], [ConsumerData("g")] * (HEARTBEAT_GROUPS_MAX + 1)), "consumerDataSet"),
        (
            HeartbeatData(
                "c", [], [ConsumerData("g", "", "", "", [SubscriptionData("t")] * (HEARTBEAT_GROUPS_MAX + 1))]
            ),
            "subscriptionDataSet",
        ),
    ],
    ids=["producers", "consumers", "subscriptions"],
)
def test_a_heartbeat_has_a_number_of_groups_and_topics_at_most(codec: int, data: HeartbeatData, where: str) -> None:
    ((handled, refused),) = outcomes(codec_for(codec).encode_request(Heartbeat(body=data), 1, False))
    assert not handled
    assert f"length <= {HEARTBEAT_GROUPS_MAX}" in refused
    assert where in refused


def test_an_answer_to_our_request_may_be_longer_than_a_request() -> None:
    """What a consumer does, as fastjson writes it: with objects as keys, which isn't standard."""
    queues = {MessageQueue("t", "b", number): ProcessQueueInfo() for number in range(5_000)}
    frame = codec_for(JSON).encode_answer(RunningInfoAnswer(body=ConsumerRunningInfo(mq_table=queues)), 7, b"")
    body_at = 8 + int.from_bytes(frame[5:8], "big")
    envelope, shape = codec_for(JSON).decode_envelope(frame[8:body_at]), answer_shape(RunningInfoAnswer)
    assert b"{{" in frame
    assert codec_for(JSON).decode_answer(shape, envelope, frame[body_at:]).body.mq_table == queues
    endless = b"{mqTable:{" + b"," * LENIENT_ANSWER_STEPS_MAX + b"}}"
    with pytest.raises(ProtocolError, match=f"{LENIENT_ANSWER_STEPS_MAX} tokens"):
        codec_for(JSON).decode_answer(shape, envelope, endless)


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b"a:1," * 2_000_000 + b"}",
        b"{'clientID':'" + b"\\n" * 1_900_000 + b"'}",
        b"{'x':[" + b"1," * 1_900_000 + b"]}",
        b"{" + b"," * 4_000_000 + b"}",
    ],
    ids=["names", "escapes", "numbers", "commas"],
)
def test_a_heartbeat_in_json_that_isnt_standard_costs_a_limited_number_of_steps(body: bytes) -> None:
    body = body[: 4 * 1024 * 1024 - 4]
    ((handled, refused),) = outcomes(framed(Heartbeat(), JSON, body))
    assert not handled
    assert f"{LENIENT_STEPS_MAX} tokens" in refused


def test_every_token_and_every_escape_is_a_step() -> None:
    text = b"{a:['\\n\\t',2]}"
    steps = 1 + 2 + 1 + 1 + 2 + 1 + 1 + 1 + 1 + 1  # { a : [ text, its escapes, comma, 2, ], }, and the end
    assert read_lenient(text, steps) == {"a": ["\n\t", 2]}
    with pytest.raises(ProtocolError, match=f"more than {steps - 1} tokens"):
        read_lenient(text, steps - 1)


def test_a_header_in_json_that_isnt_standard_is_limited_the_same_way() -> None:
    header = b"{code:106,extFields:{" + b"a:1," * 200_000 + b"}}"
    with pytest.raises(ProtocolError, match="isn't standard"):
        codec_for(JSON).decode_envelope(header)


def test_a_file_of_ours_may_be_longer_than_a_frame() -> None:
    class Table(msgspec.Struct):
        table: dict[int, int]

    text = b"{table:{" + b",".join(b"%d:1" % number for number in range(30_000)) + b"}}"
    with pytest.raises(ProtocolError, match="isn't standard"):
        fastjson.decode_as(text, Table)
    assert len(fastjson.decode_as(text, Table, fastjson.UNLIMITED).table) == 30_000


def test_many_tiny_messages_in_one_frame_are_limited_by_their_number() -> None:
    tiny = [ManyMessage("t", 0, b"", b"")] * (SEND_MANY_TAKEN_MAX + 1)
    request = SendMany(producer_group="p", default_topic="TBW102", default_topic_queue_nums=4, body=tiny)
    ((handled, refused),) = outcomes(codec_for(NATIVE).encode_request(request, 1, False))
    assert not handled
    assert f"length <= {SEND_MANY_TAKEN_MAX}" in refused
    request.body = tiny[1:]
    assert outcomes(codec_for(NATIVE).encode_request(request, 1, False)) == [("SendMany", "")]


def test_every_request_whose_body_is_read_into_values_has_a_limit_below_a_frame() -> None:
    unlimited = {
        declaration.name
        for declaration in REQUESTS.values()
        if declaration.request.body_type not in (bytes, Records)
        and declaration.request.body_bytes_max > TABLE_BYTES_MAX
    }
    assert unlimited == {"SEND_MANY", "IMPORT_MESSAGES"}, "their messages are counted instead"
    assert REQUESTS[RequestCode.SEND_MESSAGE].request.body_bytes_max == FRAME_BYTES_MAX
