"""What foreign clients leave out: RocketMQ reads a required field that it doesn't need as null and goes on."""

from typing import Any

import pytest

from staticfire.protocol.codecs import JSON, Envelope, codec_for
from staticfire.protocol.command import Request, declaration_of
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.requests.send import SendMessage, SendMessageV2


def read(kind: type[Request], fields: bytes) -> Any:
    declaration = declaration_of(kind)
    return codec_for(JSON).decode_request(declaration, Envelope(declaration.code, 1, 0, 63, 1, None, fields), b"body")


def test_a_send_needs_only_where_it_goes_and_what_it_is() -> None:
    fields = b'{"topic":"orders","queueId":1,"sysFlag":0,"bornTimestamp":"5","flag":0}'
    request = read(SendMessage, fields)
    assert (request.producer_group, request.default_topic, request.default_topic_queue_nums) == ("", "", 0)
    short = read(SendMessageV2, b'{"a":null,"b":"orders","e":1,"f":0,"g":"5","h":0}')
    assert (short.producer_group, short.topic, short.born_timestamp) == ("", "orders", 5)


def test_a_send_without_a_topic_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match=r"SEND_MESSAGE: JSON of a SendMessage: .*missing required field `topic`"):
        read(SendMessage, b'{"queueId":1,"sysFlag":0,"bornTimestamp":"5","flag":0}')
