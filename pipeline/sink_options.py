"""The options of the sink, parsed once into a frozen value. Pure. Names are those of the source and of Kafka's sink."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from staticfire.pipeline.options import (
    TLS_NAMES,
    GivenTls,
    OptionReader,
    Protocol,
    group_of,
    keys_of,
    known_options,
    name_server_of,
    tls_of,
)
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import topic_fault

PRODUCER_GROUP = "SPARK_SINK"
# The limit for a row, including all retries.
SEND_TIMEOUT_MS = 30_000
ROWS_PER_SEND = 1_000
SENDS_IN_FLIGHT = 3
ROWS_PER_SEND_MAX, SENDS_IN_FLIGHT_MAX = 65_536, 64

NAMES = (
    "nameServer", "topic", "protocol", "group", "failOnError", "sendTimeoutMs", "rowsPerSend", "sendsInFlight",
    "rowIds", "checkpointLocation", "accessKey", "secretKey", *TLS_NAMES,
)  # fmt: skip
_NOT_OPTIONS = {
    "path": "save() and start() accept no path: use the option topic",
    "subscribe": "that is for reading; the sink's option is called topic",
    "namesrvaddr": "the option is called nameServer",
    "namesrv": "the option is called nameServer",
    "kafka.bootstrap.servers": "the option is called nameServer",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options of a write."""

    name_server: str
    topic: str = ""
    """The topic for rows without one of their own. If empty, each row must have one."""
    protocol: Protocol = "staticfire"
    group: str = PRODUCER_GROUP
    fail_on_error: bool = True
    send_timeout_ms: int = SEND_TIMEOUT_MS
    rows_per_send: int = ROWS_PER_SEND
    sends_in_flight: int = SENDS_IN_FLIGHT
    row_ids: bool = True
    """Whether each message has a property that identifies its row and run."""
    tls: GivenTls = None
    access_key: str = ""
    """The user in whose name requests are signed."""
    secret_key: str = field(default="", repr=False)


def parse_sink_options(options: Mapping[str, str], environment: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write. Raises: UsageError, one line that names the option."""
    given = known_options(options, "sink", NAMES, _NOT_OPTIONS)
    read = OptionReader(given)
    return SinkOptions(
        name_server=name_server_of(given, environment),
        topic=_topic(given),
        protocol=cast(Protocol, read.one_of("protocol", ("staticfire", "rocketmq"), "staticfire")),
        group=group_of(given, PRODUCER_GROUP),
        fail_on_error=read.boolean("failOnError", True),
        send_timeout_ms=read.integer("sendTimeoutMs", 1) or SEND_TIMEOUT_MS,
        rows_per_send=read.integer("rowsPerSend", 1, ROWS_PER_SEND_MAX) or ROWS_PER_SEND,
        sends_in_flight=read.integer("sendsInFlight", 1, SENDS_IN_FLIGHT_MAX) or SENDS_IN_FLIGHT,
        row_ids=read.boolean("rowIds", True),
        tls=tls_of(given),
        **keys_of(given),
    )


def _topic(given: Mapping[str, str]) -> str:
    topic = given.get("topic", "")
    fault = topic_fault(topic) if topic else None
    if fault is not None:
        raise UsageError(f"topic={topic}: {fault}")
    return topic
