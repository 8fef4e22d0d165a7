"""Rules about messages: delayed, in a transaction, dead, or filtered out. Pure.

Each rule is a function of the facts that yields its findings. explanation.py has the order of all rules.
"""

from collections.abc import Iterable, Sequence

from staticfire.client.cluster.subscriptions import SQL92
from staticfire.client.explain.facts import ALL_MESSAGES, GroupFacts, TopicFacts
from staticfire.client.explain.findings import ExplainFinding, count, named, next_try, some
from staticfire.protocol.durations import format_duration, format_moment
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import dead_letter_topic, retry_topic
from staticfire.protocol.properties import RESERVED_NAMES
from staticfire.protocol.requests.clock import FROZEN
from staticfire.protocol.requests.group_state import WaitingState
from staticfire.protocol.sql92.faults import FilterExpressionError
from staticfire.protocol.sql92.filters import compile_filter
from staticfire.protocol.tags import TagExpression, TagExpressionError


def due_later(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Retries and delayed messages that aren't due yet."""
    back = facts.waiting(retry_topic(facts.group), "level", "timer")
    if back:
        yield _waits(facts, "RETRIES_LATER", next_try(sum(one.count for one in back)), back)
    for topic in facts.topics:
        sent = facts.waiting(topic, "level", "timer")
        if sent:
            is_one = sum(one.count for one in sent) == 1
            were = "was sent with a delay and isn't" if is_one else "were sent with a delay and aren't"
            yield _waits(facts, "DUE_LATER", f"of {topic} {were} due yet", sent)


def _waits(facts: GroupFacts, kind: str, what: str, waiting: Sequence[WaitingState]) -> ExplainFinding:
    at_least = "" if all(one.is_all for one in waiting) else "at least "
    next_ms = min(one.next_ms for one in waiting)
    left_ms = next_ms - facts.message_ms
    when = f"the next at {format_moment(next_ms)}, in {format_duration(max(0, left_ms))} of message time"
    words = f"{at_least}{count(sum(one.count for one in waiting), 'message')} {what}: {when}"
    way_out = f"staticfire clock advance {format_duration(max(1, left_ms))}; in a test: clock.advance(...)"
    evidence = []
    if facts.clock_mode == FROZEN:
        evidence.append(
            f"message time is frozen at {format_moment(facts.message_ms)}: no message becomes due by itself"
        )
        way_out += "; to resume time: staticfire clock run"
    return ExplainFinding(kind, words, evidence, way_out)


def open_transactions(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Half messages whose transaction hasn't ended."""
    for topic in facts.topics:
        halves = facts.waiting(topic, "transaction")
        if halves:
            number = sum(one.count for one in halves)
            next_ms = min(one.next_ms for one in halves)
            are, producers = "is in a transaction that isn't ended: no consumer gets it", "its producer is"
            if number > 1:
                are, producers = "are in transactions that aren't ended: no consumer gets them", "their producers are"
            words = f"{count(number, 'message')} of {topic} {are}"
            evidence = [f"{producers} checked next at {format_moment(next_ms)}, in message time"]
            way_out = "commit them, or start the producer, so that brokers can check it; for an earlier check: "
            way_out += f"staticfire clock advance {format_duration(max(1, next_ms - facts.message_ms))}"
            yield ExplainFinding("OPEN_TRANSACTIONS", words, evidence, way_out)


def dead(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Dead letters."""
    number = facts.view.dead_letters
    if number:
        words = f"{count(number, 'message')} died: {facts.group} gave up on "
        words += f"{'it after its last try, and it is' if number == 1 else 'them after its last try, and they are'} in "
        words += dead_letter_topic(facts.group)
        way_out = f"staticfire dlq list {facts.group}; to send them again: staticfire dlq resend {facts.group} --all"
        yield ExplainFinding("DEAD_LETTERS", words, [], way_out, is_cause=False)


def filtered(facts: GroupFacts) -> Iterable[ExplainFinding]:
    """Expressions that match none of the newest messages."""
    for topic, wanted in facts.subscribed().items():
        known = facts.topics.get(topic)
        if known is None or not known.samples:
            continue
        for expression, clients in wanted.items():
            kinds = dict.fromkeys(facts.expression_type(topic, client) for client in clients)
            if expression in ALL_MESSAGES or any(
                _wants(expression, kind, one) for kind in kinds for one in known.samples
            ):
                continue
            yield _matches_nothing(known, expression, clients)


def _matches_nothing(topic: TopicFacts, expression: str, clients: Sequence[str]) -> ExplainFinding:
    tags = sorted({message.tags or "no tag" for message in topic.samples})
    count = len(topic.samples)
    newest = "the newest message" if count == 1 else f"any of the {count} newest messages"
    words = f"{named(clients)} subscribed to {topic.name} with [{expression}], which doesn't match {newest}"
    evidence = [f"their tags: {named(tags)}", *some(map(_shown, topic.samples[:2]))]
    way_out = f"compare: staticfire peek {topic.name} --last; upper and lower case of tags differ"
    return ExplainFinding("FILTER_MATCHES_NOTHING", words, evidence, way_out)


def _shown(message: ReceivedMessage) -> str:
    own = [f"{name}={text}" for name, text in message.properties.items() if name not in RESERVED_NAMES]
    shown = ", ".join(own[:6])
    return f"for example {message.message_id}: tag {message.tags or '-'}, {shown or 'no properties'}"


def _wants(expression: str, expression_type: str, message: ReceivedMessage) -> bool:
    """Whether an expression matches a message. True if it can't be read."""
    is_condition = expression_type == SQL92
    if not expression_type:  # The member didn't report it.
        is_condition = any(sign in expression for sign in "=<>()'") or " IS " in expression.upper()
    try:
        if is_condition:
            return compile_filter(expression).matches(message.record.properties)
        return TagExpression.parse(expression).matches(message.tags)
    except (TagExpressionError, FilterExpressionError):
        return True
