"""Whether the faults of a run can explain that a producer got no answer that its message was stored. Pure.

After one such answer a producer must not send again. So for the producer all of its attempts must have failed, and at
least one of them must have stored the message. Which requests a fault can have hit follows from its rule: from topic,
broker and group, and from its position, as the server counts. A rule doesn't count the requests that another rule has
ended before it. So the range of possible positions is wider by the number of hits of the other rules.

When a connection is closed, the answers to all its open requests are lost. While a server is away, all answers of that
time are lost; what its rules have counted is unknown then, so positions prove nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from staticfire.chaos.evidence import Evidence
from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.sends import Sent, sends_in
from staticfire.chaos.usage import POPS, PULLS, SENDS, is_client_id
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.journal import JournalRecord

AWAY = ("freeze", "restart", "kill", "partition", "nameserver", "disk-full")
"""A server, or one client, is away for a time."""
LOSING = ("lost-answer", "lost-answers", "reset", "slow", "status")
"""The message is stored, and its producer gets no answer, a late one, or a status other than SEND_OK."""
REFUSING = ("busy", "refuse")
BEFORE_MS, AFTER_MS = 1_000, 3_000
"""A send up to this much before or after a server's absence may have been in flight during it."""
IN_FLIGHT_MS, ANSWER_MS = 150, 20
"""How long a send may be in flight on a connection, and how long a broker may take for the answer in whose place it
closes the connection."""
FAMILIES = {"SEND_MESSAGE": SENDS, "PULL_MESSAGE": PULLS, "POP_MESSAGE": frozenset({POPS})}


class Attempt(NamedTuple):
    """A request to store a message."""

    topic: str
    message_id: str
    broker: str
    client: str
    real_ms: int
    request: JournalRecord | None = None
    """None: it isn't known, as after the loss of a journal."""


class LostAnswers:
    """Explains why a producer may not have known that its message was stored. Each hit of a fault explains one send."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._hit = [injected for injected in evidence.injected if injected.hits]
        self._left = {id(injected): injected.hits for injected in self._hit}
        self._ranges: dict[int, list[JournalRecord]] = {}
        """The requests that each rule can have hit, once they were determined."""

    def explain(self, message: ReceivedMessage) -> bool:
        """Return whether no attempt to send this message need have been answered; use up the hits that explain it."""
        attempts = self._attempts(message)
        reasons = [self._reasons(attempt) for attempt in attempts]
        if not all(reasons) or not any(injected.fault.kind not in REFUSING for ones in reasons for injected in ones):
            return False
        for ones in reasons:
            counted = [injected for injected in ones if injected.fault.kind in ("lost-answers", "slow", "status")]
            if len(counted) == len(ones):
                self._left[id(min(counted, key=lambda injected: self._left[id(injected)]))] -= 1
        return True

    def _attempts(self, message: ReceivedMessage) -> list[Attempt]:
        found = [
            Attempt(one.topic, one.message_id, one.request.broker, one.client, one.real_ms, one.request)
            for one in self._sends.get(message.message_id, ())
        ]
        return found or [Attempt(message.topic, message.message_id, message.broker_name, "", message.stored_ms)]

    @cached_property
    def _sends(self) -> dict[str, list[Sent]]:
        found: dict[str, list[Sent]] = {}
        for one in sends_in(self._evidence.requests):
            found.setdefault(one.message_id, []).append(one)
        return found

    # -- faults --------------------------------------------------------------------------------------------------

    def _reasons(self, attempt: Attempt) -> list[InjectedFault]:
        """Return the faults that can be the reason why an attempt wasn't answered with success."""
        return [injected for injected in self._hit if self._can_have_failed(injected, attempt)]

    def _can_have_failed(self, injected: InjectedFault, attempt: Attempt) -> bool:
        fault = injected.fault
        if fault.kind in AWAY:
            return self._was_away(injected, attempt)
        if fault.kind not in (*LOSING, *REFUSING) or self._left[id(injected)] <= 0:
            return False
        words = dict(fault.words)
        if attempt.request is None:
            is_there = words.get("topic") in (None, attempt.topic) and words.get("broker") in (None, attempt.broker)
            return is_there and (words.get("code") == "SEND_MESSAGE" or "close" in words)
        if "close" in words:
            late_ms = ANSWER_MS if words.get("direction") == "answer" else 0
            return any(self._are_together(one, attempt, late_ms) for one in self._maybe_hit(injected))
        return any(one is attempt.request for one in self._maybe_hit(injected))

    def _are_together(self, closed: JournalRecord, attempt: Attempt, late_ms: int) -> bool:
        """Return whether a send can have been in flight on a connection when it was closed because of a request."""
        if closed is attempt.request:
            return True
        is_same = closed.client == attempt.client or not (is_client_id(closed.client) and is_client_id(attempt.client))
        if not is_same or closed.broker != attempt.broker:
            return False
        # The producer's own retry comes after the end of the connection.
        is_retry = any(one.request is closed for one in self._sends.get(attempt.message_id, ()))
        return not is_retry and -IN_FLIGHT_MS <= attempt.real_ms - closed.real_ms <= late_ms

    def _was_away(self, injected: InjectedFault, attempt: Attempt) -> bool:
        words = dict(injected.fault.words)
        if words.get("broker") not in (None, "nameserver", attempt.broker):
            return False
        if injected.client and is_client_id(attempt.client) and attempt.client != injected.client:
            return False
        until_ms = injected.until_ms or self._evidence.ended_ms
        return injected.at_ms - BEFORE_MS <= attempt.real_ms <= until_ms + AFTER_MS

    # -- positions -----------------------------------------------------------------------------------------------

    def _maybe_hit(self, injected: InjectedFault) -> list[JournalRecord]:
        """Return the requests that a rule can have hit."""
        if id(injected) not in self._ranges:
            self._ranges[id(injected)] = list(self._in_range(injected))
        return self._ranges[id(injected)]

    def _in_range(self, injected: InjectedFault) -> Iterator[JournalRecord]:
        words = dict(injected.fault.words)
        is_known = not any(one.fault.kind in AWAY for one in self._hit) and "probability" not in words
        first = int(str(words.get("after") or 0))
        others = sum(one.hits for one in self._hit if one is not injected and one.fault.kind in (*LOSING, *REFUSING))
        end = first + int(str(words.get("times") or len(self._evidence.requests))) + others
        passed: Counter[str] = Counter()
        for one in _meant(self._evidence.requests, words):
            count = _messages_in(one, words.get("topic")) if "answer" in words else 1
            if not is_known or first - count < passed[one.broker] < end:
                yield one
            passed[one.broker] += count


def _meant(requests: Sequence[JournalRecord], words: dict[str, object]) -> Iterator[JournalRecord]:
    """Yield the requests that a rule is about, in the order in which a server has seen them."""
    family = FAMILIES.get(str(words.get("code")), frozenset())
    is_answer = words.get("direction") == "answer" or words.get("drop") == "answer"
    for one in requests:
        if one.code not in family or (is_answer and one.details.get("oneway")):
            continue
        if words.get("group") not in (None, one.group) or words.get("broker") not in (None, one.broker):
            continue
        if words.get("topic") in (None, one.topic) or _topics_in(one).count(words.get("topic")):
            yield one


def _messages_in(request: JournalRecord, topic: object) -> int:
    """Return how many messages of a topic a request has: a rule that responds with a code counts each."""
    topics = _topics_in(request)
    return len(topics) if topic is None and topics else topics.count(topic) or 1


def _topics_in(request: JournalRecord) -> list[object]:
    """Return the topics of a request with many messages."""
    body = request.details.get("body") if request.code == "SEND_MANY" else None
    return [part.get("topic") for part in body] if isinstance(body, list) else []
