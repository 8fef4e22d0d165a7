"""What is known of a group that may not consume: everything that a rule looks at. Nothing here asks anybody."""

from collections.abc import Iterable, Iterator

import msgspec

from staticfire.client.admin.group_view import GroupMember, GroupView
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.group_state import GroupState, ResetState, WaitingState
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.protocol.requests.journal import JournalRecord

BROADCASTING = "BROADCASTING"


class QueueFacts(msgspec.Struct):
    """A queue of a topic that the group should consume."""

    queue: MessageQueue
    first: int
    end: int
    committed: int = -1
    """Where brokers say that the group goes on; -1: they know nothing."""
    consumed: int = -1
    """The same, or what its owner says, which knows earlier."""
    owners: list[str] = []
    cached: int = 0
    """Messages that its owner has pulled and not done."""
    last_pull_ms: int = 0
    """When it was pulled or popped, by the owner's wall clock; 0: it hasn't said."""
    is_popped: bool = False
    """Whether members pop it: none of them has it for itself."""
    reset: ResetState | None = None
    """The latest reset of the group there by an administrator, where its broker knows of one."""
    delivered: JournalRecord | None = None
    """When the message that is next was delivered last, if that is known."""
    next_message: ReceivedMessage | None = None
    """The message that is next, where it was read."""

    @property
    def lag(self) -> int:
        """How many messages it is behind."""
        return max(0, self.end - max(self.consumed, self.first if self.consumed < 0 else 0))

    @property
    def place(self) -> str:
        """Its name for people."""
        return str(self.queue)


class TopicFacts(msgspec.Struct):
    """A topic that the group should consume."""

    name: str
    exists: bool = True
    similar: list[str] = []
    """Topics with a name like this one, where it doesn't exist."""
    brokers: list[str] = []
    perms: dict[str, int] = {}
    """By broker."""
    shapes: dict[str, tuple[int, int]] = {}
    """How many queues can be read and written, by broker."""
    queues: list[QueueFacts] = []
    """Those that consumers read."""
    hidden: list[QueueFacts] = []
    """Those that producers may send to and that are beyond the number of read queues."""
    samples: list[ReceivedMessage] = []
    """Some of its newest messages."""

    @property
    def count(self) -> int:
        """How many messages are stored."""
        return sum(one.end - one.first for one in (*self.queues, *self.hidden))


class GroupFacts(msgspec.Struct):
    """A group, its members, its topics, its brokers."""

    group: str
    brokers: list[str] = []
    """Those that answered."""
    addresses: dict[str, str] = {}
    """Of all masters, as the nameserver tells them to who asks from here."""
    away: dict[str, str] = {}
    """Those that didn't, and why."""
    is_known: bool = True
    similar: list[str] = []
    """Groups with a name like this one, where it isn't known."""
    config: dict[str, SubscriptionGroupConfig] = {}
    """By broker."""
    view: GroupView = msgspec.field(default_factory=lambda: GroupView("", []))
    states: dict[str, GroupState] = {}
    """What staticfire's brokers add, by broker."""
    topics: dict[str, TopicFacts] = {}
    retries: list[QueueFacts] = []
    """The queues of its retry topic."""
    left: list[JournalRecord] = []
    """Members that have left, the latest last."""
    has_journal: bool = False
    delivered: bool = False
    """Whether any message has ever been delivered to the group, if there is a journal."""
    faults: list[str] = []
    """Rules that break something on purpose, in words."""

    @property
    def members(self) -> list[GroupMember]:
        """Who is there."""
        return self.view.members

    @property
    def is_broadcast(self) -> bool:
        """Whether each member gets everything, and keeps its offsets itself."""
        return self.view.message_model == BROADCASTING

    @property
    def wall_ms(self) -> int:
        """What the brokers' wall clock shows; 0: none says."""
        return max((state.wall_ms for state in self.states.values()), default=0)

    @property
    def message_ms(self) -> int:
        """What the message clock shows; 0: there is none."""
        return max((state.message_ms for state in self.states.values()), default=0)

    @property
    def clock_mode(self) -> str:
        """How the message clock goes; empty: there is none."""
        return next((state.clock_mode for state in self.states.values() if state.clock_mode), "")

    def queues(self) -> Iterator[QueueFacts]:
        """Yield all queues, those of retries last."""
        for topic in self.topics.values():
            yield from topic.queues
        yield from self.retries

    def member(self, client_id: str) -> GroupMember | None:
        """Return a member."""
        return next((one for one in self.members if one.client_id == client_id), None)

    def waiting(self, topic: str, *kinds: str) -> list[WaitingState]:
        """Return what waits for a topic, on all brokers."""
        found = (one for state in self.states.values() for one in state.waiting)
        return [one for one in found if one.topic == topic and one.kind in kinds]

    def subscribed(self) -> dict[str, dict[str, list[str]]]:
        """Return who wants what: client ids by expression by topic, without the group's own retries."""
        wanted: dict[str, dict[str, list[str]]] = {}
        for member in self.members:
            for topic, expression in member.subscriptions.items():
                if topic != retry_topic(self.group):
                    wanted.setdefault(topic, {}).setdefault(expression, []).append(member.client_id)
        return wanted


def total(queues: Iterable[QueueFacts]) -> int:
    """Return how far queues are behind together."""
    return sum(one.lag for one in queues)
