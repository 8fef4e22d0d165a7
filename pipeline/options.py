"""The options of the data source, parsed once into a frozen value. Pure.

Names are those of Spark's Kafka source if it has the option, else those of RocketMQ's own connector. As in both, case
doesn't matter. Every error contains the option, its value and what is allowed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, cast

from staticfire.pipeline.expressions import EVERYTHING, TAG, SourceExpression, parse_expression
from staticfire.pipeline.offsets import EARLIEST, LATEST, GivenOffsets, parse_offsets, parse_times
from staticfire.pipeline.topic_pattern import TopicPattern, parse_pattern
from staticfire.protocol.durations import MOMENT_MS_MAX
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import TOOLS_GROUP, group_fault, topic_fault
from staticfire.runtime.addresses import parse_addresses
from staticfire.runtime.tls.settings import TlsClient, tls_client

# Messages per pull. A broker returns fewer if they are larger than 256 KiB in total; RocketMQ's default limit is 32.
PULL_BATCH_SIZE = 1_024

PULL_BATCH_SIZE_MAX = 65_536
PULLS_IN_FLIGHT, PULLS_IN_FLIGHT_MAX = 3, 64
PULL_TIMEOUT_MS = 3_000
# How long a read retries while a broker is away, before it fails.
RECONNECT_TIMEOUT_MS = 30_000

Protocol = Literal["staticfire", "rocketmq"]
GivenTls = TlsClient | Literal[False] | None
"""False: plain text. None: as the environment says."""
Boundary = str | GivenOffsets
"""`earliest`, `latest`, or offsets by queue."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of a query."""

    name_server: str
    topics: tuple[str, ...]
    """Empty if there is a pattern."""
    pattern: TopicPattern | None = None
    protocol: Protocol = "staticfire"
    group: str = TOOLS_GROUP
    starting_offsets: Boundary | None = None
    ending_offsets: Boundary = LATEST
    starting_ms: int | None = None
    ending_ms: int | None = None
    starting_times: GivenOffsets | None = None
    """Times by queue, in milliseconds, instead of offsets."""
    ending_times: GivenOffsets | None = None
    is_late_start_latest: bool = True
    """Whether a queue without messages at or after the start time starts at its end. Otherwise that is an error."""
    max_offsets_per_trigger: int | None = None
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    expression: SourceExpression = EVERYTHING
    push_down_filters: bool = False
    pull_batch_size: int = PULL_BATCH_SIZE
    pulls_in_flight: int = PULLS_IN_FLIGHT
    pull_timeout_ms: int = PULL_TIMEOUT_MS
    reconnect_timeout_ms: int = RECONNECT_TIMEOUT_MS
    include_properties: bool = False
    tls: GivenTls = None
    access_key: str = ""
    """The user in whose name requests are signed."""
    secret_key: str = field(default="", repr=False)
    given: frozenset[str] = field(default_factory=frozenset)
    """The names of the options that were set, to refuse those that don't apply to a kind of query."""


TLS_NAMES = (
    "tls.enable", "tls.client.trustCertPath", "tls.client.authServer", "tls.client.certPath", "tls.client.keyPath",
    "tls.client.keyPassword",
)  # fmt: skip
"""RocketMQ's names for TLS, of source and sink. The paths are those of files on each worker."""
NAMES = (
    "nameServer", "subscribe", "subscribePattern", "topic", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss", "expression", "expressionType", "subExpression",
    "pushDownFilters", "pullBatchSize", "pullsInFlight", "pullTimeoutMs", "reconnectTimeoutMs", "protocol",
    "includeProperties", "group", "accessKey", "secretKey", *TLS_NAMES,
)  # fmt: skip
_STRATEGY = "startingOffsetsByTimestampStrategy"
_NOT_OPTIONS = {
    "path": "load() accepts no path: use the option subscribe for topics",
    "assign": "queues can't be assigned: subscribe to topics; startingOffsets and endingOffsets limit their queues",
    "namesrvaddr": "the option is called nameServer",
    "namesrv": "the option is called nameServer",
}


def parse_options(options: Mapping[str, str], environment: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a query. Raises: UsageError, one line that names the option."""
    given = known_options(options, "source", NAMES, _NOT_OPTIONS)
    read = OptionReader(given)
    parsed = SourceOptions(
        name_server=name_server_of(given, environment),
        topics=_topics(given),
        pattern=parse_pattern(given["subscribePattern"]) if "subscribePattern" in given else None,
        protocol=cast(Protocol, read.one_of("protocol", ("staticfire", "rocketmq"), "staticfire")),
        group=group_of(given, TOOLS_GROUP),
        starting_offsets=read.boundary("startingOffsets"),
        ending_offsets=read.boundary("endingOffsets") or LATEST,
        starting_ms=read.integer("startingTimestamp", 0, MOMENT_MS_MAX),
        ending_ms=read.integer("endingTimestamp", 0, MOMENT_MS_MAX),
        starting_times=read.times("startingOffsetsByTimestamp"),
        ending_times=read.times("endingOffsetsByTimestamp"),
        is_late_start_latest=read.one_of(_STRATEGY, ("latest", "error"), "latest") == "latest",
        max_offsets_per_trigger=read.integer("maxOffsetsPerTrigger", 1),
        min_partitions=read.integer("minPartitions", 1) or 0,
        fail_on_data_loss=read.boolean("failOnDataLoss", True),
        expression=_expression(given, read),
        push_down_filters=read.boolean("pushDownFilters", False),
        pull_batch_size=read.integer("pullBatchSize", 1, PULL_BATCH_SIZE_MAX) or PULL_BATCH_SIZE,
        pulls_in_flight=read.integer("pullsInFlight", 1, PULLS_IN_FLIGHT_MAX) or PULLS_IN_FLIGHT,
        pull_timeout_ms=read.integer("pullTimeoutMs", 1) or PULL_TIMEOUT_MS,
        reconnect_timeout_ms=read.integer("reconnectTimeoutMs", 1) or RECONNECT_TIMEOUT_MS,
        include_properties=read.boolean("includeProperties", False),
        tls=tls_of(given),
        **keys_of(given),
        given=frozenset(given),
    )
    for name, boundary in (
        ("startingOffsets", parsed.starting_offsets),
        ("endingOffsets", parsed.ending_offsets),
        ("startingOffsetsByTimestamp", parsed.starting_times),
        ("endingOffsetsByTimestamp", parsed.ending_times),
    ):
        _check_topics_of(name, boundary, parsed)
    return parsed


def keys_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options accessKey and secretKey, by the names of fields. Raises: UsageError (one is missing)."""
    keys = {"access_key": given.get("accessKey", ""), "secret_key": given.get("secretKey", "")}
    if bool(keys["access_key"]) != bool(keys["secret_key"]):
        raise UsageError("accessKey and secretKey belong together: give both, or none")
    return keys


def check_for_batch(options: SourceOptions) -> None:
    """Refuse options that don't work for a batch query. Raises: UsageError."""
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
    """Refuse options that don't work for a streaming query. Raises: UsageError."""
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name in options.given:
            raise UsageError(f"{name} is only for batch queries, because a stream has no end; use Trigger.AvailableNow")


def _opposite(boundary: str) -> str:
    return EARLIEST if boundary == LATEST else LATEST


def known_options(
    options: Mapping[str, str], what: str, names: Sequence[str], refused: Mapping[str, str]
) -> dict[str, str]:
    """Return the options under their correct spelling, whatever their case was.

    `refused`: names in lower case that aren't options, with the reason. Raises: UsageError, with a suggestion.
    """
    spelling = {name.lower(): name for name in names}
    given = {}
    for name, text in options.items():
        known = spelling.get(name.lower())
        if known is None:
            if name.lower() in refused:
                raise UsageError(f"{name}: {refused[name.lower()]}")
            close = [spelling[match] for match in get_close_matches(name.lower(), spelling, n=1)]
            hint = f"did you mean {close[0]}?" if close else f"the options are: {', '.join(names)}"
            raise UsageError(f"{name} is not an option of the {what} staticfire; {hint}")
        given[known] = text.strip()
    return given


def name_server_of(given: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the nameserver's address. Raises: UsageError."""
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
    said = [name for name in ("subscribe", "topic", "subscribePattern") if name in given]
    if len(said) > 1:
        raise UsageError(f"{said[0]} and {said[1]} both select topics: use only one of them")
    if given.get("subscribePattern"):
        return ()
    name = "subscribe" if "subscribe" in given else "topic"
    topics = tuple(dict.fromkeys(filter(None, (topic.strip() for topic in given.get(name, "").split(",")))))
    if not topics:
        raise UsageError('subscribe is missing: write .option("subscribe", "orders,payments"), or subscribePattern')
    for topic in topics:
        fault = topic_fault(topic)
        if fault is not None:
            raise UsageError(f"{name}={given[name]}: {topic!r} can't be a topic: {fault}")
    return topics


def tls_of(given: Mapping[str, str]) -> GivenTls:
    """Return how connections use TLS, as the options say. Raises: UsageError."""
    wanted = {name: given[name] for name in TLS_NAMES if name in given}
    return (tls_client(wanted) or False) if wanted else None


def group_of(given: Mapping[str, str], default: str) -> str:
    """Return the group that brokers see in requests. Raises: UsageError."""
    group = given.get("group") or default
    fault = group_fault(group)
    if fault is not None:
        raise UsageError(f"group={group}: {fault}")
    return group


def _expression(given: Mapping[str, str], read: "OptionReader") -> SourceExpression:
    if "expression" not in given:
        if "expressionType" in given:
            raise UsageError(f"expressionType={given['expressionType']}: it needs the option expression")
        return parse_expression("subExpression", given.get("subExpression", ""), TAG)
    if "subExpression" in given:
        raise UsageError("expression and subExpression both select messages: use only expression")
    kind = read.one_of("expressionType", ("tag", "sql92"), "tag").upper() if "expressionType" in given else ""
    return parse_expression("expression", given["expression"], kind)


def _check_topics_of(name: str, boundary: Boundary | None, options: SourceOptions) -> None:
    if not isinstance(boundary, GivenOffsets):
        return
    pattern = options.pattern
    for topic in boundary.topics:
        if pattern is not None and not pattern.matches(topic):
            raise UsageError(f"{name} names topic {topic}, which subscribePattern={pattern.text} doesn't match")
        if pattern is None and topic not in options.topics:
            raise UsageError(f"{name} names topic {topic}, which isn't subscribed to: {', '.join(options.topics)}")


@dataclass(frozen=True, slots=True)
class OptionReader:
    """Parses texts. All methods raise UsageError, with the option and what is allowed."""

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
            allowed = f"a whole number of at least {least}"
            if most is not None:
                allowed = f"a whole number from {least} to {most}"
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

    def times(self, name: str) -> GivenOffsets | None:
        text = self.given.get(name)
        if text is None:
            return None
        try:
            return parse_times(text)
        except UsageError as error:
            raise UsageError(f"{name}={text}: {error}") from None


def _time_hint(name: str) -> str:
    if not name.endswith("Timestamp"):
        return ""
    return f", milliseconds since 1970; for times by queue use {name.replace('Timestamp', 'OffsetsByTimestamp')}"
