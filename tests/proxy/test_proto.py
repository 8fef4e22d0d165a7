"""The messages of the gRPC endpoint: those of RocketMQ, whatever else the process has loaded."""

import pytest
from google.protobuf import descriptor_pool

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
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
