"""Decide what happens to a message whose consumption failed: a retry, and when, or the dead-letter topic. RocketMQ:
AbstractSendMessageProcessor.consumerSendMsgBack, handleRetryAndDLQ.

Pure: the callers act on the decision. By default a message is delivered once and then up to 16 times more, at the delay
levels 3 to 18: over 4 hours, 45 minutes and 40 seconds. Then it is a dead letter.
"""

from collections.abc import Callable

import msgspec

from staticfire.protocol.delay_levels import retry_level
from staticfire.protocol.requests.groups import SubscriptionGroupConfig

# V3_4_9. Older clients don't send a maximum of their own.
CLIENT_DECIDES_FROM_VERSION = 121


def reconsume_times_max(group: SubscriptionGroupConfig, requested: int | None, client_version: int) -> int:
    """Return how often a message is redelivered: the client's maximum if it sends one, else that of the group."""
    if requested is not None and client_version >= CLIENT_DECIDES_FROM_VERSION:
        return requested
    return group.retry_max_times


def is_dead(came_back: int, times_max: int, is_given_up: bool) -> bool:
    """Return whether a message that failed once more is dead. Everything that redelivers messages uses this function.

    `came_back`: how often it had been redelivered when it failed. `is_given_up`: the client wants no other try.
    """
    return is_given_up or came_back >= times_max


def level_after_failure(came_back: int, times_max: int, requested_level: int) -> int | None:
    """Return the delay level at which a message that was sent back is redelivered; None if it is dead.

    `requested_level`: above 0: the client's choice; 0: the broker decides; below 0: the client doesn't want it any
    more.
    """
    if is_dead(came_back, times_max, is_given_up=requested_level < 0):
        return None
    return requested_level or retry_level(came_back)


def is_dead_on_arrival(reconsume_times: int, times_max: int, group_holds_locks: bool) -> bool:
    """Return whether a message that a client sent to the retry topic itself must go to the dead-letter topic.

    The client has already counted this failure. Orderly consumers give up a message in this way, and a group that holds
    a queue lock sends nothing else there.
    """
    return is_dead(reconsume_times - 1, times_max, is_given_up=group_holds_locks)


class SentBack(msgspec.Struct, frozen=True):
    """A message that a consumer sent back, as hooks get it. RocketMQ: ConsumeMessageContext."""

    group: str
    topic: str
    """The topic from which the consumer got it: the retry topic, if it wasn't the first try."""
    queue_id: int
    queue_offset: int
    log_position: int
    origin_message_id: str
    origin_topic: str
    reconsume_times: int
    """The count of the new message."""
    delay_level: int | None
    """None if it is a dead letter."""
    client: str
    """The address of the consumer."""
    status: str
    """SUCCESS, or why it could not be stored."""
    client_id: str = ""
    """The client id of the consumer; empty if unknown."""

    @property
    def success(self) -> bool:
        return self.status == "SUCCESS"


class DeadLetterStored(msgspec.Struct, frozen=True):
    """A dead letter that was stored, as hooks get it."""

    group: str
    topic: str
    """The dead-letter topic."""
    queue_id: int
    queue_offset: int
    log_position: int
    message_id: str
    """The unique id that its producer gave it."""
    origin_topic: str
    """The topic that it was sent to originally, if its properties contain it."""


ConsumeHook = Callable[[SentBack], None]
DeadLetterHook = Callable[[DeadLetterStored], None]


class RetryWatch(msgspec.Struct):
    """Counts dead letters, and calls hooks when consumption fails. Hooks must not raise."""

    consume_hooks: list[ConsumeHook] = []
    """Called for a message sent back when it is stored or refused, before the response (consumeMessageAfter)."""
    dead_letter_hooks: list[DeadLetterHook] = []
    """Called for each dead letter after it is stored."""
    dead_letters: dict[str, int] = {}
    """The number of dead letters since the start of the broker, by group."""

    def dead_letter_stored(self, letter: DeadLetterStored) -> None:
        """Count a dead letter that was stored, and call the hooks."""
        self.dead_letters[letter.group] = self.dead_letters.get(letter.group, 0) + 1
        for hook in self.dead_letter_hooks:
            hook(letter)

    def sent_back(self, sent_back: SentBack) -> None:
        """Call the hooks for a message that was sent back."""
        for hook in self.consume_hooks:
            hook(sent_back)
