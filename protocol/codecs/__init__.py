"""Read and write a frame's header and body: one class per codec byte.

    u32 length | u8 codec, u24 header length | header | body        length counts everything after itself

- `native.py`, 2: msgpack; staticfire's own programs
- `json.py`, 0: JSON headers, RocketMQ's JSON bodies and binary records; RocketMQ's remoting clients
- `rocketmq.py`, 1: the same in a binary header; remoting clients with ROCKETMQ_SERIALIZE_TYPE=ROCKETMQ
- `signing.py`, 0: the same with signed requests, for clients with an access key

All of them are generic over the declarations in `protocol.requests`. `hot_native.py` and `hot_json.py` have
hand-written code for the few frequent commands, in the same formats. For any bytes, a codec raises `ProtocolError` or
nothing.

`codec.py` says what a codec is, and what becomes of the requests that hot codecs read.
"""

from staticfire.protocol.codecs.codec import (
    ANSWER_FLAG,
    JSON,
    NATIVE,
    ONEWAY_FLAG,
    ROCKETMQ,
    Called,
    Codec,
    Envelope,
    MakeCall,
    Offers,
    RequestWatch,
    SendRuns,
)
from staticfire.protocol.codecs.hot_json import HOT_ANSWERS as HOT_JSON_ANSWERS
from staticfire.protocol.codecs.hot_native import HOT_ANSWERS as HOT_NATIVE_ANSWERS
from staticfire.protocol.codecs.json import JsonCodec
from staticfire.protocol.codecs.native import NativeCodec
from staticfire.protocol.codecs.rocketmq import RocketmqCodec
from staticfire.protocol.errors import ProtocolError

__all__ = [
    "ANSWER_FLAG",
    "JSON",
    "NATIVE",
    "ONEWAY_FLAG",
    "ROCKETMQ",
    "Called",
    "Codec",
    "Envelope",
    "MakeCall",
    "Offers",
    "RequestWatch",
    "SendRuns",
    "codec_for",
]

_CODECS: dict[int, Codec] = {
    JSON: JsonCodec(HOT_JSON_ANSWERS),
    ROCKETMQ: RocketmqCodec(),
    NATIVE: NativeCodec(HOT_NATIVE_ANSWERS),
}


def codec_for(codec_byte: int) -> Codec:
    """Return the codec of a frame. Raises: ProtocolError if it is unknown."""
    codec = _CODECS.get(codec_byte)
    if codec is None:
        raise ProtocolError(f"codec {codec_byte} is unknown; known are 0 (JSON), 1 (ROCKETMQ) and 2 (msgpack)")
    return codec
