"""Topics, groups, offsets, request modes and users of a master, and how a slave takes them over. RocketMQ:
SlaveSynchronize.

Topics, the mappings of static topics, and groups are replaced if the master's version differs, so what was created at
the slave vanishes. If the master has offsets of a group in a topic, these replace all that the slave has of them, also
by lower ones. Offsets that the master had and has no more are removed, because their topic or group was deleted. So
are those that a slave had at its start. Those that were first committed at the slave stay. Users and policies become
those of the master, because a slave has the same messages, and may become the master. RocketMQ doesn't copy them.

Offsets wait until the slave's log is as long as the master's was. An offset may be after popped messages, and only the
log says which of them aren't acknowledged: a slave that took over with the offset alone would never deliver them.
"""

from collections.abc import Callable, Iterable

import msgspec

from staticfire.broker.config_files import GROUPS_FILE, OFFSETS_FILE, TOPICS_FILE
from staticfire.broker.groups.offsets import GroupTopic, OffsetTable
from staticfire.broker.handlers.access import FILE as ACCESS_FILE, AccessHandlers
from staticfire.broker.handlers.assignment import AssignmentHandlers
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.replication import CopiedState, CopyState, CopyStateAnswer
from staticfire.protocol.requests.topics import DataVersion
from staticfire.runtime.dispatcher import Call

_offsets_decoder = msgspec.json.Decoder(dict[str, dict[Int32, Int64]])


def version_text(version: DataVersion) -> str:
    """Return a version as text, to be compared only."""
    return msgspec.json.encode(version).decode()


class StateCopy:
    """Gives the state of a broker to its slaves, or takes over that of its master."""

    def __init__(
        self,
        tables: BrokerTables,
        assignments: AssignmentHandlers,
        access: AccessHandlers,
        first_waiting: Callable[[], int | None],
        answer_held: Callable[[str], None],
    ) -> None:
        """`first_waiting` returns the log position of the oldest message that waits at this broker. `answer_held`
        responds to the held pulls of a topic."""
        self._tables = tables
        self._first_waiting = first_waiting
        self._answer_held = answer_held
        self._assignments = assignments
        self._access = access
        self._waiting: tuple[int, dict[str, dict[int, int]]] | None = None
        """Offsets for which the log is too short, and how long it must be."""
        self._masters: list[GroupTopic] = []
        """Of which groups and topics the master had offsets when they were last copied."""
        self._has_taken = False
        """Whether this slave has taken over something since it began."""

    def begin_as_slave(self) -> None:
        """Count the restored offsets as the master's: it may have deleted topics while this slave was down."""
        self._masters = self._tables.groups.offsets.places()

    @property
    def is_complete(self) -> bool:
        """Whether no offsets wait for the log."""
        return self._waiting is None

    def give(self, call: Call) -> CopyStateAnswer:
        """Return the offsets, and what has another version than the slave's. Raises: StorageError."""
        request: CopyState = call.request
        topics, groups = self._tables.topics, self._tables.groups
        state = CopiedState(offsets=_pack_offsets(groups.offsets), modes=self._assignments.packed_modes().decode())
        state.log_position = self._tables.state.store.max_position
        waiting = self._first_waiting()
        state.waiting_position = -1 if waiting is None else waiting
        topics_version, groups_version = version_text(topics.version), version_text(groups.configs.version)
        if request.topics_version != topics_version:
            state.topics, state.topics_version = topics.snapshot().decode(), topics_version
        static = self._tables.static_topics
        if request.mappings_version != version_text(static.version):
            state.mappings = static.snapshot().decode()
        if request.groups_version != groups_version:
            state.groups, state.groups_version = groups.configs.snapshot().decode(), groups_version
        state.users, _ = self._access.users_for(request.users_version)
        return CopyStateAnswer(body=state)

    def count_changes(self) -> int:
        """Return a number that increases with each change of topics, groups, users or policies."""
        tables = self._tables
        topics = tables.topics.version.counter + tables.static_topics.version.counter
        return topics + tables.groups.configs.version.counter + self._access.changes

    def wanted(self) -> CopyState:
        """Return the request for what this slave doesn't have; at first, for everything.

        What was changed at this broker while it was the master can have the same version as another change at the new
        master: a version is made of message time, which may stand, and a counter.
        """
        tables = self._tables
        if not self._has_taken:
            return CopyState("", "", self._access.users_for("")[1], "")
        topics, groups = version_text(tables.topics.version), version_text(tables.groups.configs.version)
        return CopyState(topics, groups, self._access.users_for("")[1], version_text(tables.static_topics.version))

    async def take(self, state: CopiedState) -> None:
        """Take over the state of the master, offsets as soon as the log allows it; the rest is on the disk afterwards.

        Raises: StorageError (it can't be understood, or written).
        """
        tables, files = self._tables, []
        # What the master has stored since then may wait, too.
        tables.state.masters_waiting_position = (
            state.log_position if state.waiting_position < 0 else state.waiting_position
        )
        try:
            if state.users:  # First, because what follows must not be read by others.
                self._access.take_users(state.users.encode())
                files.append(ACCESS_FILE)
            if state.topics:
                tables.topics.take_copy(state.topics.encode())
                files.append(TOPICS_FILE)
            if state.mappings:  # After the topics, because mappings of unknown topics are removed.
                tables.static_topics.take_copy(state.mappings.encode())
                files.append(MAPPINGS_FILE)
            if state.groups:
                tables.groups.configs.restore(state.groups.encode())
                tables.groups.configs.add_system_groups()
                tables.config_files.changed(GROUPS_FILE)
                files.append(GROUPS_FILE)
            # If older offsets wait, and the log is too short for these, too, the older ones can be taken first.
            if state.offsets and (self._waiting is None or self._is_log_at(state.log_position)):
                self._waiting = state.log_position, _offsets_decoder.decode(state.offsets)
                self.log_grew()
            if state.modes:
                self._assignments.take_modes(state.modes.encode())
        except (msgspec.MsgspecError, ValueError, BrokerAnswer) as error:
            raise StorageError(f"the state of the master can't be understood: {error}") from error
        self._has_taken = True
        if files:
            await tables.config_files.saved(*files)

    def forget_topics(self, deletions: dict[str, int]) -> None:
        """Remove the offsets of topics that the master has deleted. `deletions`: topic and where the log ended then.

        At once, because the next copy may wait for the log: if this slave takes over before that, a group would skip
        as many new messages as it had consumed of the deleted topic.
        """
        for topic in deletions:
            self._tables.groups.offsets.forget_topic(topic)
        self._tables.config_files.changed(OFFSETS_FILE)
        if self._waiting is not None:
            position, table = self._waiting
            left = {key: queues for key, queues in table.items() if deletions.get(key.partition("@")[0], -1) < position}
            self._waiting = position, left

    def answer_pulls(self, topics: Iterable[str]) -> None:
        """Respond to the held pulls of topics whose queues were deleted, as their master does."""
        for topic in topics:
            self._answer_held(topic)

    def log_grew(self) -> None:
        """Take over the offsets that wait if the log is long enough now."""
        if self._waiting is not None and self._is_log_at(self._waiting[0]):
            self._take_offsets(*self._waiting)
            self._waiting = None

    def _is_log_at(self, position: int) -> bool:
        return position <= self._tables.state.store.max_position

    def _take_offsets(self, log_position: int, table: dict[str, dict[int, int]]) -> None:
        offsets = self._tables.groups.offsets
        offsets.copied_position = log_position
        places = {(group, topic): queues for key, queues in table.items() for topic, _, group in [key.partition("@")]}
        for group, topic in self._masters:
            if (group, topic) not in places:
                offsets.forget_place(group, topic)
        self._masters = list(places)
        for (group, topic), queues in places.items():
            known = offsets.queues_of(group, topic)
            for queue_id, offset in queues.items():
                if known.get(queue_id) != offset:
                    offsets.commit(group, topic, queue_id, offset)
            offsets.forget_queues(group, topic, known.keys() - queues.keys())


def _pack_offsets(offsets: OffsetTable) -> str:
    table = {f"{topic}@{group}": offsets.queues_of(group, topic) for group, topic in offsets.places()}
    return msgspec.json.encode(table).decode()
