"""Responses whose code a rule replaces, after the request was carried out. Pure.

A send keeps its result: a RocketMQ that responds with FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE
has stored the message, and its response contains where. Any other request gets an error without a result. An error
response of the handler isn't changed.
"""

import msgspec

from staticfire.faults import actions
from staticfire.faults.book import Ruling
from staticfire.faults.bundles import remark_of, with_codes
from staticfire.protocol.codecs import Codec, Envelope
from staticfire.protocol.command import REQUESTS, SUCCESS, answer_shape, refusal
from staticfire.protocol.requests.send import SendAnswer, SendManyAnswer


def with_other_code(codec: Codec, envelope: Envelope, body: bytes, code: int, ruling: Ruling) -> bytes | None:
    """Return the frame of a response to a request with this code, as a rule changes it; None if no rule does."""
    if envelope.code != SUCCESS:
        return None
    if ruling.refused:
        answer = codec.decode_answer(answer_shape(SendManyAnswer), envelope, body)
        answer.body = with_codes(answer.body or (), ruling.refused)
        return codec.encode_answer(answer, envelope.opaque)
    rule = ruling.end
    if rule is None or rule.action != actions.REFUSE:
        return None
    declaration = REQUESTS.get(code)
    if declaration is None or declaration.answer.command is not SendAnswer:
        return codec.encode_answer(refusal(rule.answer_code, remark_of(rule)), envelope.opaque)
    stored = codec.decode_answer(answer_shape(SendAnswer), envelope, body)
    answer = msgspec.structs.replace(stored, code=rule.answer_code, remark=remark_of(rule))
    return codec.encode_answer(answer, envelope.opaque)
