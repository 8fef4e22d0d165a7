"""Settings of simple consumers: frozen values. RocketMQ 5: SimpleConsumerBuilder."""

from dataclasses import dataclass, field

from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.settings.push_settings import ConsumeFromWhere
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.pop import POP_MESSAGES_MAX
from staticfire.runtime.ranges import PERIOD, PERIOD_OR_NONE, check_ranges, within


@dataclass(frozen=True, slots=True)
class SimpleSettings:
    """How a simple consumer receives, where a call doesn't say it."""

    client: ClientSettings = field(default_factory=ClientSettings)
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    """Where a group begins that has no offset yet; with LAST_OFFSET, a young queue gives all that it has."""
    max_messages: int = field(default=16, metadata=within(1, POP_MESSAGES_MAX))
    invisible_ms: int = field(default=30_000, metadata=PERIOD_OR_NONE)
    """How long nobody else gets what was received; after that it comes again, unless it is acknowledged."""
    await_ms: int = field(default=15_000, metadata=PERIOD_OR_NONE)
    """How long `receive` waits for a first message."""
    hold_margin_ms: int = field(default=10_000, metadata=PERIOD_OR_NONE)
    """How much longer than it may be held an answer is waited for."""
    ack_timeout_ms: int = field(default=3_000, metadata=PERIOD)
    """For the answer to an acknowledgement, or to a changed invisible time."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.consume_from_where is ConsumeFromWhere.TIMESTAMP:
            raise UsageError(
                "a simple consumer begins at the first or at the last message, not at a time: "
                "let an administrator reset the group's offset instead"
            )
