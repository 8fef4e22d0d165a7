"""Settings of simple consumers: frozen values. RocketMQ 5: SimpleConsumerBuilder."""

from dataclasses import dataclass, field

from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.settings.push_settings import ConsumeFromWhere
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.pop import POP_MESSAGES_MAX
from staticfire.runtime.ranges import PERIOD, PERIOD_OR_NONE, check_ranges, within


@dataclass(frozen=True, slots=True)
class SimpleSettings:
    """How a simple consumer receives; the parameters of a call override some of these."""

    client: ClientSettings = field(default_factory=ClientSettings)
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    """Where a group without an offset starts; with LAST_OFFSET, a young queue delivers all its messages."""
    max_messages: int = field(default=16, metadata=within(1, POP_MESSAGES_MAX))
    invisible_ms: int = field(default=30_000, metadata=PERIOD_OR_NONE)
    """How long received messages are invisible to others; after that they are redelivered, unless acknowledged."""
    await_ms: int = field(default=15_000, metadata=PERIOD_OR_NONE)
    """How long `receive` waits for a first message."""
    hold_margin_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """How much longer than the hold time to wait for a response."""
    ack_timeout_ms: int = field(default=3_000, metadata=PERIOD)
    """The timeout for acknowledgements and changes of the invisible time."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.consume_from_where is ConsumeFromWhere.TIMESTAMP:
            raise UsageError(
                "a simple consumer begins at the first or at the last message, not at a time: reset the group's "
                "offsets with Admin instead"
            )
