"""What becomes of a message whose consumption failed: another try, when, or the dead letters. RocketMQ:
AbstractSendMessageProcessor.consumerSendMsgBack, handleRetryAndDLQ.

Pure: `dead_letters.py` carries it out. By default a message is delivered once and then 16 times more, at levels 3 to
18: for 4 hours, 45 minutes and 40 seconds. Then it is a dead letter.
"""

from collections.abc import Callable

import msgspec

from staticfire.protocol.delay_levels import retry_level
from staticfire.protocol.requests.groups import SubscriptionGroupConfig

CLIENT_DECIDES_FROM_VERSION = 121
# V3_4_9: clients before that don't know how often they want a message.


def reconsume_times_max(group: SubscriptionGroupConfig, asked: int | None, client_version: int) -> int:
    """Return how often a message comes back: as the client says, else as its group is set."""
    if asked is not None and client_version >= CLIENT_DECIDES_FROM_VERSION:
        return asked
    return group.retry_max_times


def is_dead(came_back: int, times_max: int, is_given_up: bool) -> bool:
    """Whether a message that failed once more never comes again. All that sets messages aside asks here.

    `came_back`: how often it had come back when it failed. `is_given_up`: the client wants no other try.
    """
    return is_given_up or came_back >= times_max


def level_after_failure(came_back: int, times_max: int, asked_level: int) -> int | None:
    """Return at which delay level a message comes back that a consumer sent back; None for never: it is dead.

    `asked_level`: above 0 the client's choice, 0 for the broker's, below 0 the client doesn't want it any more.
    """
    if is_dead(came_back, times_max, is_given_up=asked_level < 0):
        return None
    return asked_level or retry_level(came_back)


def is_dead_on_arrival(reconsume_times: int, times_max: int, group_holds_locks: bool) -> bool:
    """Whether a message that a client sent to the retry topic itself goes to the dead letters.

    The client has counted this failure already. Orderly consumers give a message up that way, so a group that holds a
    queue lock sends nothing else there.
    """
    return is_dead(reconsume_times - 1, times_max, is_given_up=group_holds_locks)


class SentBack(msgspec.Struct, frozen=True):
    """A message that a consumer gave back, as hooks see it. RocketMQ: ConsumeMessageContext."""

    group: str
    topic: str
    """Where the consumer had it from: its retry topic, when it wasn't the first try."""
    queue_id: int
    queue_offset: int
    log_position: int
    origin_message_id: str
    origin_topic: str
    reconsume_times: int
    """Of the new message."""
    delay_level: int | None
    """None: it is a dead letter."""
    client: str
    """The address of the consumer."""
    status: str
    """SUCCESS, or why it could not be stored."""
    client_id: str = ""
    """Its client id, where it has told one."""

    @property
    def success(self) -> bool:
        return self.status == "SUCCESS"


class DeadLetterStored(msgspec.Struct, frozen=True):
    """A message that is a dead letter now, as hooks see it."""

    group: str
    topic: str
    """The one of dead letters."""
    queue_id: int
    queue_offset: int
    log_position: int
    message_id: str
    """The unique id that its producer gave it."""
    origin_topic: str
    """Where it came from, as far as it says."""


ConsumeHook = Callable[[SentBack], None]
DeadLetterHook = Callable[[DeadLetterStored], None]


class RetryWatch(msgspec.Struct):
    """Who wants to know of failed consumption, and how much of it there was. Hooks must not raise."""

    consume_hooks: list[ConsumeHook] = []
    """Called for each send-back when it is stored or refused by the store, before the answer (consumeMessageAfter)."""
    dead_letter_hooks: list[DeadLetterHook] = []
    """Called for each dead letter when it is stored."""
    dead_letters: dict[str, int] = {}
    """How many there were since the broker started, by group."""

    def dead_letter_stored(self, letter: DeadLetterStored) -> None:
        """Count a dead letter that was stored."""
        self.dead_letters[letter.group] = self.dead_letters.get(letter.group, 0) + 1
        for hook in self.dead_letter_hooks:
            hook(letter)

    def sent_back(self, sent_back: SentBack) -> None:
        """Let the hooks see it."""
        for hook in self.consume_hooks:
            hook(sent_back)
