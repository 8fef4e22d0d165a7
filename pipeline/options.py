"""The options of the data source, read once into a frozen value. Pure.

Names are those of Spark's Kafka source where it has one, else of RocketMQ's own connector; as in both, their case
doesn't matter. Every error names the option, its value and what would do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, cast

from staticfire.pipeline.offsets import EARLIEST, LATEST, GivenOffsets, parse_offsets
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.names import group_fault, topic_fault
from staticfire.protocol.tags import TagExpression
from staticfire.runtime.addresses import parse_addresses

DEFAULT_GROUP = "TOOLS_CONSUMER"
# A group that every RocketMQ broker has. Nothing is committed for it, and it has no members.

PULL_BATCH_SIZE = 1_024
# Messages per pull; a broker gives less when they are more than 256 KiB together, RocketMQ's by default 32 at most.

PULL_BATCH_SIZE_MAX = 65_536
PULL_TIMEOUT_MS = 3_000
RECONNECT_TIMEOUT_MS = 30_000
# How long a broker that is away is tried again before the read fails.

Protocol = Literal["staticfire", "rocketmq"]
Boundary = str | GivenOffsets
"""`earliest`, `latest`, or offsets by queue."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a query asks for."""

    name_server: str
    topics: tuple[str, ...]
    protocol: Protocol = "staticfire"
    group: str = DEFAULT_GROUP
    starting_offsets: Boundary | None = None
    ending_offsets: Boundary = LATEST
    starting_ms: int | None = None
    ending_ms: int | None = None
    max_offsets_per_trigger: int | None = None
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    sub_expression: str = "*"
    pull_batch_size: int = PULL_BATCH_SIZE
    pull_timeout_ms: int = PULL_TIMEOUT_MS
    reconnect_timeout_ms: int = RECONNECT_TIMEOUT_MS
    include_properties: bool = False
    given: frozenset[str] = field(default_factory=frozenset)
    """The names that were set, for what holds in one kind of query only."""

    @property
    def tags(self) -> TagExpression:
        """Which tags are wanted."""
        return TagExpression.parse(self.sub_expression)


NAMES = (
    "nameServer", "subscribe", "topic", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss", "subExpression", "pullBatchSize", "pullTimeoutMs",
    "reconnectTimeoutMs", "protocol", "includeProperties", "group",
)  # fmt: skip
_LOWER = {name.lower(): name for name in NAMES}
_NOT_OPTIONS = {
    "path": "load() takes no path here: name topics with subscribe",
    "subscribepattern": "patterns aren't supported: list the topics in subscribe, separated by commas",
    "assign": "queues can't be assigned: subscribe to topics; startingOffsets and endingOffsets limit their queues",
    "namesrvaddr": "the option is called nameServer",
    "namesrv": "the option is called nameServer",
}


def parse_options(options: Mapping[str, str], environment: Mapping[str, str]) -> SourceOptions:
    """Return the options of a query. Raises: UsageError, one line that names the option."""
    given = {_known(name): text.strip() for name, text in options.items()}
    read = OptionReader(given)
    parsed = SourceOptions(
        name_server=name_server_of(given, environment),
        topics=_topics(given),
        protocol=cast(Protocol, read.one_of("protocol", ("staticfire", "rocketmq"), "staticfire")),
        group=_group(given),
        starting_offsets=read.boundary("startingOffsets"),
        ending_offsets=read.boundary("endingOffsets") or LATEST,
        starting_ms=read.integer("startingTimestamp", 0),
        ending_ms=read.integer("endingTimestamp", 0),
        max_offsets_per_trigger=read.integer("maxOffsetsPerTrigger", 1),
        min_partitions=read.integer("minPartitions", 1) or 0,
        fail_on_data_loss=read.boolean("failOnDataLoss", True),
        sub_expression=_expression(given),
        pull_batch_size=read.integer("pullBatchSize", 1, PULL_BATCH_SIZE_MAX) or PULL_BATCH_SIZE,
        pull_timeout_ms=read.integer("pullTimeoutMs", 1) or PULL_TIMEOUT_MS,
        reconnect_timeout_ms=read.integer("reconnectTimeoutMs", 1) or RECONNECT_TIMEOUT_MS,
        include_properties=read.boolean("includeProperties", False),
        given=frozenset(given),
    )
    _check_topics_of("startingOffsets", parsed.starting_offsets, parsed.topics)
    _check_topics_of("endingOffsets", parsed.ending_offsets, parsed.topics)
    return parsed


def check_for_batch(options: SourceOptions) -> None:
    """Refuse what a batch can't do. Raises: UsageError."""
    for name, boundary, refused, why in (
        ("startingOffsets", options.starting_offsets, LATEST, "a batch that starts at the end reads nothing"),
        ("endingOffsets", options.ending_offsets, EARLIEST, "a batch that ends at the start reads nothing"),
    ):
        if boundary == refused:
            raise UsageError(f"{name}={refused}: {why}; write {_opposite(refused)}, or offsets by queue")
        if isinstance(boundary, GivenOffsets) and boundary.has(refused):
            number = -1 if refused == LATEST else -2
            raise UsageError(f"{name}={boundary.text}: {number} means {refused}, and {why}; write real offsets")


def check_for_stream(options: SourceOptions) -> None:
    """Refuse what a streaming query can't do. Raises: UsageError."""
    for name in ("endingOffsets", "endingTimestamp"):
        if name in options.given:
            raise UsageError(f"{name} is for batch queries: a stream has no end; stop it with Trigger.AvailableNow")


def _opposite(boundary: str) -> str:
    return EARLIEST if boundary == LATEST else LATEST


def _known(name: str) -> str:
    """Return an option's own spelling. Raises: UsageError, with what was probably meant."""
    known = _LOWER.get(name.lower())
    if known is not None:
        return known
    if name.lower() in _NOT_OPTIONS:
        raise UsageError(f"{name}: {_NOT_OPTIONS[name.lower()]}")
    close = [_LOWER[match] for match in get_close_matches(name.lower(), _LOWER, n=1)]
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(NAMES)}"
    raise UsageError(f"{name} is no option of the source staticfire; {hint}")


def name_server_of(given: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return where the cluster is. Raises: UsageError."""
    text = given.get("nameServer") or environment.get("NAMESRV_ADDR", "")
    if not text:
        raise UsageError(
            'nameServer is missing: write .option("nameServer", "host:port"), or set NAMESRV_ADDR in the environment'
        )
    try:
        parse_addresses(text)
    except UsageError as error:
        raise UsageError(f"nameServer={text}: {error}") from None
    return text


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    if "subscribe" in given and "topic" in given:
        raise UsageError("subscribe and topic say the same: use one of them")
    name = "subscribe" if "subscribe" in given else "topic"
    topics = tuple(dict.fromkeys(filter(None, (topic.strip() for topic in given.get(name, "").split(",")))))
    if not topics:
        raise UsageError('subscribe is missing: write .option("subscribe", "orders,payments")')
    for topic in topics:
        fault = topic_fault(topic)
        if fault is not None:
            raise UsageError(f"{name}={given[name]}: {topic!r} can't be a topic: {fault}")
    return topics


def _group(given: Mapping[str, str]) -> str:
    group = given.get("group") or DEFAULT_GROUP
    fault = group_fault(group)
    if fault is not None:
        raise UsageError(f"group={group}: {fault}")
    return group


def _expression(given: Mapping[str, str]) -> str:
    text = given.get("subExpression") or "*"
    try:
        TagExpression.parse(text)
    except ClientError as error:
        raise UsageError(f"subExpression={text}: {error}") from None
    return text


def _check_topics_of(name: str, boundary: Boundary | None, topics: tuple[str, ...]) -> None:
    if isinstance(boundary, GivenOffsets):
        for topic in boundary.topics:
            if topic not in topics:
                raise UsageError(f"{name} names topic {topic}, which isn't subscribed to: {', '.join(topics)}")


@dataclass(frozen=True, slots=True)
class OptionReader:
    """Reads texts as numbers and words. Everything raises UsageError, with the option and what would do."""

    given: Mapping[str, str]

    def integer(self, name: str, least: int, most: int | None = None) -> int | None:
        text = self.given.get(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            allowed = f"a whole number from {least} on" if most is None else f"a whole number from {least} to {most}"
            raise UsageError(f"{name}={text}: write {allowed}{_time_hint(name)}")
        return number

    def boolean(self, name: str, default: bool) -> bool:
        return self.one_of(name, ("true", "false"), "true" if default else "false") == "true"

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        text = self.given.get(name, default).lower()
        if text not in allowed:
            raise UsageError(f"{name}={self.given[name]}: write {' or '.join(allowed)}")
        return text

    def boundary(self, name: str) -> Boundary | None:
        text = self.given.get(name)
        if text is None:
            return None
        if text.lower() in (EARLIEST, LATEST):
            return text.lower()
        parse: Callable[[str], GivenOffsets] = parse_offsets
        try:
            return parse(text)
        except UsageError as error:
            raise UsageError(f"{name}={text}: {error}") from None


def _time_hint(name: str) -> str:
    return ", milliseconds since 1970" if name.endswith("Timestamp") else ""
