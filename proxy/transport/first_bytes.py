"""Recognises the protocol of a connection by its first bytes: the endpoint's port takes TLS and plain text.

RocketMQ decides by the first five bytes (OptionalSslHandler, ProxyAndTlsProtocolNegotiator). Protocols that aren't
served are recognised too, so that a client on the wrong port gets a reason.
"""

from enum import Enum
from typing import NamedTuple

from staticfire.proxy.transport.frames import PREFACE

TLS_HANDSHAKE = 0x16
PROXY_V2 = b"\r\n\r\n\x00\r\nQUIT\n"
PROXY_V1 = b"PROXY "
HTTP_1_METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE ")
# How many bytes are enough to decide.
SPEAKER_BYTES_MAX = max(map(len, (PROXY_V2, *HTTP_1_METHODS)))

HELLO = b"This is RocketMQ's gRPC endpoint (package apache.rocketmq.v2). It takes HTTP/2, plain or in TLS.\n"
HTTP_1_ANSWER = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(HELLO), HELLO)
)


class Speaks(Enum):
    """The protocol of a connection."""

    HTTP_2 = "HTTP/2"
    TLS = "TLS"
    OTHER = "other"


class Speaker(NamedTuple):
    """A recognised protocol. If it isn't served: `words` describe it, and `answer` is sent to the client."""

    speaks: Speaks
    words: str = ""
    answer: bytes = b""


def recognise(first: bytes) -> Speaker | None:
    """Return the protocol, None if more bytes are needed to decide; `first` isn't empty."""
    head = first[:SPEAKER_BYTES_MAX]
    if head[0] == TLS_HANDSHAKE:
        return Speaker(Speaks.TLS)
    if head.startswith(PREFACE[:4]):
        return Speaker(Speaks.HTTP_2)
    for words, answer, starts in _OTHERS:
        if head.startswith(starts):
            return Speaker(Speaks.OTHER, words, answer)
    if any(start.startswith(head) for start in (PREFACE, *_STARTS)):
        return None
    if head[0] == 0 and len(head) < 5:
        return None
    if head[0] == 0:
        words = "a frame of RocketMQ's remoting protocol: such clients must use the address of the nameserver"
        return Speaker(Speaks.OTHER, words)
    return Speaker(Speaks.OTHER, f"bytes of an unknown protocol: {head.hex(' ')}")


_OTHERS = (
    ("HTTP/1: a browser, curl, or a client without HTTP/2", HTTP_1_ANSWER, HTTP_1_METHODS),
    ("a PROXY header of HAProxy, which isn't supported: turn it off in HAProxy", b"", (PROXY_V1, PROXY_V2)),
)
_STARTS = tuple(start for _, _, starts in _OTHERS for start in starts)
