"""The facts about a group that the rules use. Plain data: nothing here sends a request."""

from collections.abc import Iterable, Iterator

import msgspec

from staticfire.client.admin.group_view import GroupMember, GroupView
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.lag import lag_of
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.access import RefusedAccess
from staticfire.protocol.requests.group_state import GroupState, ResetState, WaitingState
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.protocol.requests.journal import JournalRecord

BROADCASTING = "BROADCASTING"
ALL_MESSAGES = {"*", ""}
"""The expressions that match each message."""


class ReplicaFacts(msgspec.Struct):
    """A queue at one replica of its broker."""

    end: int
    committed: int = -1
    """The group's committed offset there; -1 if there is none."""


class QueueFacts(msgspec.Struct):
    """A queue of a topic that the group should consume."""

    queue: MessageQueue
    first: int
    end: int
    committed: int = -1
    """The group's committed offset at its broker; -1 if there is none."""
    consumed: int = -1
    """The same, or the offset that its owner reports, which is newer."""
    owners: list[str] = []
    cached: int = 0
    """Messages that its owner has pulled and that aren't done."""
    last_pull_ms: int = 0
    """The last pull or pop, by the owner's wall clock; 0 if unknown."""
    read_at: int = 0
    """The id of the slave that its owner pulls from; 0 for the master, or if that is unknown."""
    replicas: dict[int, ReplicaFacts] = {}
    """The queue at each replica of its broker, by id. Empty if the broker has no slave."""
    is_popped: bool = False
    """Whether members pop it: then no member owns it alone."""
    reset: ResetState | None = None
    """The latest reset of the group there by an administrator, if its broker has a record of one."""
    began: int = -1
    """Where the group began, if it began at the end according to the journal, and has got no message since."""
    delivered: JournalRecord | None = None
    """The last delivery of the next message, if it is known."""
    next_message: ReceivedMessage | None = None
    """The next message, if it was read."""

    unacknowledged: int = 0
    """Messages that were popped and aren't acknowledged; `consumed` is past them."""
    taken_in_order: int = 0
    """Messages that were popped in order and aren't acknowledged: the queue waits for them. They are in the backlog."""

    @property
    def lag(self) -> int:
        """The number of messages that the group lags."""
        return lag_of(self.end, self.consumed, self.first, self.unacknowledged)

    @property
    def backlog(self) -> int:
        """The same without those that were popped, but not in order: they are at members."""
        return lag_of(self.end, self.consumed, self.first)

    @property
    def place(self) -> str:
        """Its name as shown to users."""
        return str(self.queue)


class TopicFacts(msgspec.Struct):
    """A topic that the group should consume."""

    name: str
    exists: bool = True
    similar: list[str] = []
    """Topics with a similar name, if it doesn't exist."""
    brokers: list[str] = []
    perms: dict[str, int] = {}
    """Permissions by broker."""
    shapes: dict[str, tuple[int, int]] = {}
    """The numbers of read and write queues, by broker."""
    queues: list[QueueFacts] = []
    """The queues that consumers read."""
    hidden: list[QueueFacts] = []
    """Queues that producers may send to, but that consumers can't read: there are fewer read than write queues."""
    samples: list[ReceivedMessage] = []
    """Some of its newest messages."""

    @property
    def count(self) -> int:
        """The number of stored messages."""
        return sum(one.end - one.first for one in (*self.queues, *self.hidden))


class GroupFacts(msgspec.Struct):
    """A group, its members, its topics, its brokers."""

    group: str
    brokers: list[str] = []
    """The brokers that responded."""
    addresses: dict[str, str] = {}
    """The addresses that are queried, as the nameserver returns them to this client: masters, or slaves without one."""
    slaves: dict[str, dict[int, str]] = {}
    """The addresses of slaves, by broker and id."""
    changed_ms: dict[str, int] = {}
    """When brokers that some members aren't connected to have started, or their topics have changed: message time."""
    masterless: list[str] = []
    """The brokers of which only slaves are left."""
    unreadable: dict[str, int] = {}
    """The slaves that refuse pulls, among those of brokers without a master: their ids, by broker."""
    away: dict[str, str] = {}
    """The brokers that didn't respond, and why."""
    missing: list[str] = []
    """Brokers of the cluster that aren't registered."""
    is_known: bool = True
    similar: list[str] = []
    """Groups with a similar name, if it isn't known."""
    config: dict[str, SubscriptionGroupConfig] = {}
    """The group's configuration, by broker."""
    view: GroupView = msgspec.field(default_factory=lambda: GroupView("", []))
    states: dict[str, GroupState] = {}
    """Additional state from staticfire's brokers, by broker."""
    topics: dict[str, TopicFacts] = {}
    retries: list[QueueFacts] = []
    """The queues of its retry topic."""
    left: list[JournalRecord] = []
    """Members that have left, the latest last."""
    refused_connections: list[JournalRecord] = []
    """Connections that were closed because of TLS, the latest last. Read only if the group has no member."""
    elsewhere: list[str] = []
    """Clients of any group that connected from another machine. Read only if brokers have loopback addresses."""
    faults: list[str] = []
    """Descriptions of the rules for injected faults."""
    refused: list[RefusedAccess] = []
    """What brokers refused lately, to any group or producer, the newest first."""

    @property
    def members(self) -> list[GroupMember]:
        """The current members."""
        return self.view.members

    @property
    def is_broadcast(self) -> bool:
        """Whether each member gets all messages, and keeps its offsets itself."""
        return self.view.message_model == BROADCASTING

    @property
    def wall_ms(self) -> int:
        """The brokers' wall clock; 0 if unknown."""
        return max((state.wall_ms for state in self.states.values()), default=0)

    @property
    def message_ms(self) -> int:
        """The message time; 0 if there is no message clock."""
        return max((state.message_ms for state in self.states.values()), default=0)

    @property
    def clock_mode(self) -> str:
        """The mode of the message clock; empty if there is none."""
        return next((state.clock_mode for state in self.states.values() if state.clock_mode), "")

    def queues(self) -> Iterator[QueueFacts]:
        """Yield all queues, those of retries last."""
        for topic in self.topics.values():
            yield from topic.queues
        yield from self.retries

    def member(self, client_id: str) -> GroupMember | None:
        """Return a member; None if there is no such member."""
        return next((one for one in self.members if one.client_id == client_id), None)

    def expression_type(self, topic: str, client_id: str) -> str:
        """Return the type of a member's expression for a topic: TAG or SQL92; empty if it doesn't report it."""
        member = self.member(client_id)
        return "" if member is None else member.expression_types.get(topic, "")

    def awaits_locks(self, topic: str) -> bool:
        """Whether a client was refused the lock of a queue of a topic and still waits for it."""
        return any(lock.topic == topic and lock.waiting for state in self.states.values() for lock in state.locks)

    def waiting(self, topic: str, *kinds: str) -> list[WaitingState]:
        """Return the messages that wait for a topic, on all brokers."""
        found = (one for state in self.states.values() for one in state.waiting)
        return [one for one in found if one.topic == topic and one.kind in kinds]

    def subscribed(self) -> dict[str, dict[str, list[str]]]:
        """Return the subscriptions without the group's own retries: topic, then expression, then client ids."""
        wanted: dict[str, dict[str, list[str]]] = {}
        for member in self.members:
            for topic, expression in member.subscriptions.items():
                if topic != retry_topic(self.group):
                    wanted.setdefault(topic, {}).setdefault(expression, []).append(member.client_id)
        return wanted


def total(queues: Iterable[QueueFacts]) -> int:
    """Return the total lag of queues."""
    return sum(one.lag for one in queues)


def total_backlog(queues: Iterable[QueueFacts]) -> int:
    """Return the number of messages in queues that no member has popped."""
    return sum(one.backlog for one in queues)
