"""Applies access control to the requests of a broker, while anything is judged.

A request of RocketMQ's clients is signed itself. On connections of staticfire's programs, SIGN_IN states the key once;
each request is checked again, so a change of a user applies from the next request on. Requests are judged when they
are handled, not when they are read: an earlier request of the same read may have changed a user.
"""

from functools import cache, partial
from typing import Any

import msgspec

from staticfire.broker.access.judging import AccessJudge, SignedBy
from staticfire.broker.access.needs import UNJUDGED, Need
from staticfire.broker.access.peers import AccessPeers
from staticfire.broker.access.refusals import (
    NOT_PERMITTED,
    WRONG_SIGNATURE,
    AccessRefusal,
    AccessRefusals,
    RefusalLines,
    groups_of,
    readable,
)
from staticfire.broker.access.resources import Resource
from staticfire.protocol.codecs import NATIVE, Called, Envelope
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.limits import HEADER_FIELDS_MAX
from staticfire.protocol.requests.access import JudgeAnswer, JudgedCall, RefusedAccess, SignIn
from staticfire.protocol.requests.send import ManyResult, SendMany, SendManyAnswer
from staticfire.protocol.signatures import ACCESS_KEY, SIGNATURE, sign, sign_in_content, sign_text, signed_content
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.dispatcher import Call, Handler
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("access")

TOO_MANY_FIELDS = f"the request has more than {HEADER_FIELDS_MAX} header fields"
# Clients send all header fields as texts. For other types the slower decoder is used.
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_fields = msgspec.json.Decoder().decode


class PartCall(Call):
    """A call without the messages that its user may not send. The response contains their refusals again."""

    refused: dict[int, ManyResult] = msgspec.field(default_factory=dict)

    def answer(self, answer: Answer) -> None:
        Call.answer(self, self.whole(answer))

    def whole(self, answer: Answer) -> Answer:
        """Return the response with the results of all messages, in their order."""
        if not isinstance(answer, SendManyAnswer) or answer.body is None:
            return answer
        rest = iter(answer.body)
        count = len(answer.body) + len(self.refused)
        return SendManyAnswer(body=[self.refused.get(index) or next(rest) for index in range(count)])


class AccessGate:
    """Checks requests before their handlers, and records what is refused."""

    def __init__(self, judge: AccessJudge, clock: Clock, refusals: AccessRefusals, peers: AccessPeers) -> None:
        self._judge = judge
        self._clock = clock
        self._refusals = refusals
        self._peers = peers
        self._lines = RefusalLines()
        self.is_old = False
        """Whether refusals are those of RocketMQ 4."""

    def screen(self, envelope: Envelope, body: bytes, called: Called) -> Called:
        """Return what replaces a handler and its call; see `RequestWatch`."""
        handler, call = called
        if envelope.code in UNJUDGED:
            return called
        return partial(self._judged, envelope, body, handler), call

    def _judged(self, envelope: Envelope, body: bytes, handler: Handler, call: Call) -> Answer | None:
        by = credentials_of(envelope, body, call)
        if by.access_key:
            self._peers.note(call.connection, by.access_key)
        source = source_of(call)
        refused = self._judge.judge(envelope.code, call.request, by, source)
        if refused is None:
            return handler(call)
        if refused.reason == NOT_PERMITTED and isinstance(call.request, SendMany):
            return self._send_rest(call.request, by, source, handler, call)
        self._note(refused, call, envelope)
        return refused.answer(self.is_old)

    def _send_rest(self, many: SendMany, by: SignedBy, source: str, handler: Handler, call: Call) -> Answer | None:
        """Handle a SEND_MANY without the messages of topics that are refused."""
        by = by._replace(expected=cache(by.expected))  # Otherwise the whole body would be signed again for each topic.
        refusals: dict[str, AccessRefusal | None] = {}
        refused: dict[int, ManyResult] = {}
        for index, message in enumerate(many.body):
            if message.topic not in refusals:
                alone = msgspec.structs.replace(many, body=[message])
                refusals[message.topic] = self._judge.judge(RequestCode.SEND_MANY, alone, by, source)
                if (found := refusals[message.topic]) is not None:
                    self._note(found, call)
            if (found := refusals[message.topic]) is not None:
                answer = found.answer(self.is_old)
                refused[index] = ManyResult(answer.code, message.queue_id, -1, -1, answer.remark or "")
        rest = [message for index, message in enumerate(many.body) if index not in refused]
        if not rest:
            return SendManyAnswer(body=list(refused.values()))
        part = PartCall(
            msgspec.structs.replace(many, body=rest), call.opaque, call.oneway, call.codec, call.connection, refused
        )
        handled = handler(part)
        return None if handled is None else part.whole(handled)

    def judge_call(self, call: Call) -> Answer:
        """Decide about the call of a gRPC client, which its endpoint has passed on."""
        if not self._judge.is_judging:
            return JudgeAnswer(is_judging=False)
        judged: JudgedCall = call.request.body
        by = SignedBy(
            judged.access_key,
            judged.signature.lower(),
            partial(_expected_text, judged.signed_text),
            problem=judged.problem,
        )
        needs = [Need(Resource(one.kind, one.name), frozenset(one.actions)) for one in judged.needs]
        refused = self._judge.judge_call(judged.name, needs, by, judged.source)
        if refused is None:
            return JudgeAnswer(is_judging=True)
        groups = [one.resource.name for one in needs if one.resource.kind == "Group"] or [""]
        new = self._refusals.note(
            refused, judged.client_id or judged.source, groups, judged.name, self._clock.wall_ms(), self._judge.similar
        )
        if new is not None:
            self._log_refusal(new, refused)
        return refused.answer(is_old=False)

    def _note(self, refused: AccessRefusal, call: Call, envelope: Envelope | None = None) -> None:
        request: Any = call.request
        # The body of JUDGE_CALL contains the id of a gRPC client, but the refused client is the endpoint that sent it.
        body = None if refused.code == RequestCode.JUDGE_CALL else getattr(request, "body", None)
        client = getattr(body, "client_id", None) or call.connection.client_id
        groups = groups_of(request, refused.resource)
        now_ms, similar = self._clock.wall_ms(), self._judge.similar
        new = self._refusals.note(refused, client or source_of(call), groups, "", now_ms, similar)
        if new is None or not self._log_refusal(new, refused):
            return
        if refused.reason == WRONG_SIGNATURE and (fields := signed_fields(envelope, call)):
            # Often a field was added after the client had signed.
            log.warning("signature_wrong", user=new.user, client=new.client, signed=readable(fields))

    def _log_refusal(self, new: RefusedAccess, refused: AccessRefusal) -> bool:
        """Log a refusal; return False if too many were logged lately. RocketMQ has a file for them, auth_audit.log."""
        if not self._lines.admits(self._clock.uptime_ms()):
            return False
        if left_out := self._lines.take_left_out():
            log.warning("access_refusals_left_out", lines=left_out, way_out="staticfire explain; GET /access has more")
        log.warning(
            "access_refused", user=new.user, request=new.request, resource=new.resource, actions=new.actions,
            client=new.client, group=new.group, reason=readable(refused.words()),
        )  # fmt: skip
        return True


def credentials_of(envelope: Envelope, body: bytes, call: Call) -> SignedBy:
    """Return the key and the signature of a request: its own, or those of the sign-in of its connection."""
    if call.codec.number == NATIVE:
        signed_in = call.connection.signed_in
        if signed_in is None:
            return SignedBy("", "", _nothing)
        return SignedBy(signed_in.access_key, signed_in.signature, partial(_expected_of_sign_in, signed_in))
    if has_many_fields(envelope.fields) or len(fields := texts_of(envelope.fields)) > HEADER_FIELDS_MAX:
        return SignedBy("", "", _nothing, problem=TOO_MANY_FIELDS)
    expected = partial(_expected, fields, body, envelope.version)
    return SignedBy(fields.get(ACCESS_KEY, ""), fields.get(SIGNATURE, ""), expected, not fields)


def has_many_fields(fields: bytes | None) -> bool:
    """Return whether there are too many header fields, without decoding them: 1 MiB of them would take 50 ms.

    Names that end in a backslash aren't counted, so `False` proves nothing.
    """
    return fields is not None and fields.count(b'":') - fields.count(b'\\":') > HEADER_FIELDS_MAX


def texts_of(fields: bytes | None) -> dict[str, str]:
    """Return the header fields of a request as texts."""
    if not fields:
        return {}
    try:
        return _decode_texts(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        found = _decode_fields(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value if isinstance(value, str) else _text(value) for name, value in found.items()}


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else "" if value is None else str(value)


def _expected(fields: dict[str, str], body: bytes, version: int, secret: str) -> str:
    return sign(secret, signed_content(fields, body, version))


def _expected_text(text: str, secret: str) -> str:
    return sign_text(secret, text)


def _expected_of_sign_in(one: SignIn, secret: str) -> str:
    return sign(secret, sign_in_content(one.access_key, one.random))


def _nothing(_secret: str) -> str:
    return ""


def signed_fields(envelope: Envelope | None, call: Call) -> str:
    """Return the names of the header fields that must be signed, in order; "" if the request isn't signed itself."""
    if envelope is None or call.codec.number == NATIVE:
        return ""
    return ", ".join(name for name in sorted(texts_of(envelope.fields)) if name != SIGNATURE)


def source_of(call: Call) -> str:
    """Return the address from which a request came, without the port."""
    return parse_address(call.peer.address)[0]
