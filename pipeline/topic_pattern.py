"""`subscribePattern`: which of a cluster's topics a query reads. Pure.

A pattern is a regular expression that must match the whole name, as in Spark's Kafka source. `.*` doesn't match topics
that users didn't create (RocketMQ's own, those of servers, retries, dead letters). The pattern must contain their name,
or a prefix that identifies them (`%DLQ%.*`, `rmq_sys_.*`).
"""

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property

from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import (
    DLQ_PREFIX,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    is_system_topic,
)

_NAMED_BY = (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPIC_PREFIX.upper())


@dataclass(frozen=True)
class TopicPattern:
    """A pattern, as the user wrote it."""

    text: str

    @cached_property
    def _expression(self) -> "re.Pattern[str]":
        return re.compile(self.text)

    def matches(self, topic: str) -> bool:
        """Return whether the whole name matches."""
        return self._expression.fullmatch(topic) is not None

    def choose(self, topics: Iterable[str], of_servers: Container[str] = ()) -> list[str]:
        """Return the topics to read, sorted. `of_servers`: topics named after brokers and clusters."""
        return sorted(topic for topic in topics if self.matches(topic) and self._is_wanted(topic, of_servers))

    def _is_wanted(self, topic: str, of_servers: Container[str]) -> bool:
        of_a_group = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        if not (of_a_group or is_system_topic(topic, of_servers) or topic.endswith(REPLY_SUFFIX)):
            return True
        said = self.text.replace("\\", "")
        return topic in said or any(topic.startswith(begin) and begin in said for begin in _NAMED_BY)


def parse_pattern(text: str) -> TopicPattern:
    """Parse a pattern. Raises: UsageError, one line."""
    pattern = TopicPattern(text)
    try:
        pattern.matches("")
    except re.error as error:
        raise UsageError(f"subscribePattern={text}: this is not a regular expression: {error}") from None
    return pattern
