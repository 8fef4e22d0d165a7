"""The messages of the gRPC endpoint: those of RocketMQ, whatever else the process has loaded."""

import pytest
from google.protobuf import descriptor_pool

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb, wire
from staticfire.proxy.services.pb_times import millis
from tools.protos import generate


@pytest.mark.slow
def test_generated_messages_are_fresh() -> None:
    stale = [path.name for path, text in generate().items() if path.read_text() != text]
    assert not stale, "run `make protos`"


def test_bytes_of_a_send_are_those_of_rocketmq() -> None:
    message = pb.Message(topic=pb.Resource(name="t"), body=b"x", user_properties={"k": "v"})
    message.system_properties.tag = ""
    message.system_properties.message_type = pb.DELAY
    message.system_properties.delivery_timestamp.FromMilliseconds(1_500)
    # As RocketMQ's client for Python writes it:
    wire = "0a200a0312017412060a016b1201761a0e0a0030035a0808011080cab5ee01220178"
    request = pb.SendMessageRequest(messages=[message])
    assert request.SerializeToString(deterministic=True).hex() == wire
    assert pb.SendMessageRequest.FromString(bytes.fromhex(wire)) == request


def test_what_later_versions_send_is_read_leniently() -> None:
    later = pb.HeartbeatRequest.FromString(b"\x10\x63\xfa\x01\x02hi")
    assert (later.client_type, later.HasField("group")) == (99, False)


def test_messages_leave_the_default_pool_to_rocketmqs_own_client() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Message")


def test_absent_and_empty_are_two_things_where_rocketmq_keeps_them_apart() -> None:
    assert not pb.SystemProperties().HasField("tag")
    assert pb.SystemProperties.FromString(b"\x0a\x00").HasField("tag")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31 - 1, 2**62, -1, -(2**62)])
def test_fields_packed_by_hand_are_those_of_the_library(value: int) -> None:
    words = "\u00e9" * (value & 255)
    packed = wire.number(wire.tag(14, wire.NUMBER), value) + wire.text(wire.tag(8, wire.LENGTHY), words)
    read = pb.SystemProperties.FromString(packed)
    assert (read.queue_offset, read.born_host) == (value, words)


@pytest.mark.parametrize("moment_ms", [0, 1, 999, 1_764_000_000_123])
def test_moments_packed_by_hand_are_those_of_the_library(moment_ms: int) -> None:
    read = pb.SystemProperties.FromString(wire.moment(wire.tag(7, wire.LENGTHY), moment_ms))
    assert millis(read.born_timestamp) == moment_ms
