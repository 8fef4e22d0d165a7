"""Copies of a broker's log and state, between a master and its slaves. staticfire's own.

A slave joins its master (JOIN_REPLICATION): both compare their epochs, and the slave learns from where to copy. Then it
requests the log piece by piece (COPY_LOG); each request also confirms what the slave has stored. COPY_STATE returns
topics, groups and offsets.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.protocol.numbers import Int32, Int64

SLAVE = "SLAVE"
"""brokerRole of a slave; any other role is that of a master."""
COPY_BYTES_MAX = 1024 * 1024
"""Size of one piece of the log, unless a single record is larger."""
PIECE_BYTES_MAX = FRAME_BYTES_MAX - 4096
"""A piece is never larger, whatever is requested: it must fit into a frame."""


class Epoch(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """The time in which one broker was the master, and where the log ended when it began."""

    epoch: Int64
    start_position: Int64
    life: Int64 = 0
    """Counts the starts of this master in its epoch: it may have lost the end of its log before each."""
    began_ms: Int64 = 0
    """When it began, in milliseconds since 1970; 0 for the first epoch of a set."""


class Joining(msgspec.Struct, rename="camel", gc=False):
    """The state of a slave that joins."""

    broker_id: Int64
    address: str
    set_id: str = ""
    """Identifies the log and its copies. Empty: the slave has no log yet."""
    epochs: list[Epoch] = []
    end_position: Int64 = 0
    last_position: Int64 = -1
    """The position of the slave's last record; -1: unknown."""
    last_crc: Int64 = 0
    """The checksum of the head of this record."""
    segment_bytes: Int64 = 0
    wants_all: bool = False
    """The slave's log is damaged, so it must copy all of it again."""


class Joined(msgspec.Struct, rename="camel", gc=False):
    """What the slave must do."""

    set_id: str
    epochs: list[Epoch]
    start_position: Int64
    """Where the slave continues. Below its own end: it removes the rest first."""
    is_anew: bool = False
    """The slave removes its whole log first, and begins at `start_position`."""
    reason: str = ""
    """Why the slave must remove a part of its log."""
    master_role: str = ""
    """The role of the master: the slave has the same after a failover."""
    end_position: Int64 = 0
    deleted_topics: dict[str, Int64] = {}
    """Topic, and where the log ended when it was deleted: older records belong to no queue."""
    deletions: int = 0
    """Changes together with `deleted_topics`."""


class JoinAnswer(Answer, rename="camel"):
    """The result of joining."""

    body_type: ClassVar[Any] = Joined


@request(RequestCode.JOIN_REPLICATION, answer=JoinAnswer)
class JoinReplication(Request, rename="camel"):
    """Begin to copy the log of a master."""

    cluster_name: str
    broker_name: str
    body_type: ClassVar[Any] = Joining


class CopyAnswer(Answer, rename="camel"):
    """A piece of the log as the body, perhaps empty, perhaps with a part of a record at its end."""

    log_position: Int64 = 0
    end_position: Int64 = 0
    """The end of the master's log."""
    deletions: Int32 = 0
    """Changes when topics are deleted. Then the slave joins again, to learn them."""
    changes: Int32 = 0
    """Another number after each change of topics, groups or users, if sends wait for slaves: they are copied now."""
    segment_end: Int64 | None = None
    """Where the segment of the piece ends, if it hasn't the size of mappedFileSizeCommitLog."""


@request(RequestCode.COPY_LOG, answer=CopyAnswer)
class CopyLog(Request, rename="camel"):
    """Request the log from a position on, and confirm what is stored. It waits if there is nothing new."""

    broker_id: Int64
    epoch: Int64
    log_position: Int64
    stored_position: Int64
    bytes_max: Int32 = COPY_BYTES_MAX
    wait_ms: Int32 = 0
    deletions: Int32 = 0
    changes: Int32 = 0
    """The last `CopyAnswer.changes`."""


class CopiedState(msgspec.Struct, rename="camel", gc=False):
    """Topics, mappings, groups, offsets, request modes and users, as in their files. Empty: it has not changed."""

    topics: str = ""
    topics_version: str = ""
    mappings: str = ""
    """The mappings of static topics."""
    groups: str = ""
    groups_version: str = ""
    offsets: str = ""
    modes: str = ""
    users: str = ""
    """Users and policies. Empty, too, if the master never had any."""
    log_position: Int64 = 0
    """Where the master's log ended at that time: the offsets belong to a log of at least this length."""
    waiting_position: Int64 = -1
    """Where the oldest message begins that waits at the master for its time; -1: none waits, or it is unknown."""

    @property
    def has_changes(self) -> bool:
        """Whether it contains topics, mappings, groups or users that the slave didn't have."""
        return bool(self.topics or self.mappings or self.groups or self.users)


class CopyStateAnswer(Answer, rename="camel"):
    """The state of the master."""

    body_type: ClassVar[Any] = CopiedState
    body_bytes_max: ClassVar[int | None] = FRAME_BYTES_MAX


@request(RequestCode.COPY_STATE, answer=CopyStateAnswer)
class CopyState(Request, rename="camel"):
    """Request topics, groups, users and mappings, if they have other versions than these, and all offsets."""

    topics_version: str = ""
    groups_version: str = ""
    users_version: str = ""
    mappings_version: str = ""


class FollowerState(msgspec.Struct, rename="camel", gc=False):
    """A slave, as its master sees it."""

    broker_id: int
    address: str
    stored_position: int
    behind_bytes: int
    behind_ms: int
    """Time since it last had everything; 0 if it has everything."""
    in_sync: bool
    connected: bool = True
    lacks_deletions: bool = False
    """Whether topics were deleted, and it doesn't know it yet."""
    silent_ms: int = 0
    """Time since its last request. One that has everything requests the log each five seconds."""


class ReplicationState(msgspec.Struct, rename="camel", gc=False):
    """How a broker takes part in replication."""

    broker_name: str
    broker_id: int
    address: str
    role: str
    set_id: str = ""
    epochs: list[Epoch] = []
    min_position: int = 0
    end_position: int = 0
    followers: list[FollowerState] = []
    """A master's slaves."""
    master_address: str = ""
    """A slave's master; empty: it looks for it."""
    master_end: int = 0
    """Where the log of a slave's master ended, as far as the slave knows."""
    is_held: bool = False
    lag_ms: int = 0
    problem: str = ""
    """Why a slave doesn't copy; empty if it does."""
    state_age_ms: int = -1
    """Time since the slave last copied topics, groups and offsets; -1: never."""
    lacks_state: bool = False
    """The slave must copy topics, groups and offsets at once, and hasn't done so yet."""
    records_after: int = -1
    """The number of messages from the requested position on; -1: not requested."""
    least_epoch: int = 0
    """A slave follows no master of an older epoch."""
    is_whole: bool = False
    """The slave has had everything that its master had, at some time since it started."""
    silent_ms: int = 0
    """How long a slave waited in vain for its last master, which may have stored messages; -1: none ever answered."""
    waits_for_failover: bool = False
    """A master that accepts no messages, because another broker must take over."""
    copies: int = 1
    """How many machines of a synchronous master have a message before it is acknowledged, the master included."""
    all_in_sync_acknowledge: bool = False
    """allAckInSyncStateSet of a master."""
    instance: str = ""
    """Random: a broker that queries an address finds out whether that is its own."""

    @property
    def is_serving(self) -> bool:
        """Whether it is a master, and doesn't wait for another broker to take over."""
        return self.role != SLAVE and not self.waits_for_failover


class ReplicationAnswer(Answer, rename="camel"):
    """The state of one broker."""

    body_type: ClassVar[Any] = ReplicationState


@request(RequestCode.GET_REPLICATION, answer=ReplicationAnswer)
class GetReplication(Request, rename="camel"):
    """Request how a broker takes part in replication, and how many messages it has from a position on."""

    count_from: Int64 = -1


@request(RequestCode.CONTROL_REPLICATION, answer=ReplicationAnswer)
class ControlReplication(Request, rename="camel"):
    """Hold, release or delay the copy of a slave, or copy the state now. Absent: no change."""

    hold: bool | None = None
    lag_ms: Int64 | None = None
    copy_state: bool = False
    fence_ms: Int64 = -1
    """A master refuses messages for this time, because it hands over; a slave copies nothing. 0: they do so again."""
    fence: str = ""
    """A random name of the failover that sets `fence_ms`: no other one ends that time."""
    least_epoch: Int64 = -1
    """A slave doesn't follow the master of an older epoch: there is a newer one."""


class RoleAnswer(Answer, rename="camel"):
    """The state in the new role."""

    removed_records: Int64 = 0
    """The records that were removed from the end of the log."""
    body_type: ClassVar[Any] = ReplicationState


@request(RequestCode.CHANGE_ROLE, answer=RoleAnswer)
class ChangeRole(Request, rename="camel"):
    """Make a broker the master of its set in a new epoch, or a slave.

    `role`: ASYNC_MASTER, SYNC_MASTER, SLAVE; empty: that of the last master. `epoch`: the new epoch, of which both
    must not know yet. `losing`: the number of messages that it removes from the end of its log. `fence`: as in
    `ControlReplication`; a master becomes a slave only if it still refuses messages for that failover, and if its log
    ends at `end_position` (-1: anywhere).
    """

    role: str
    broker_id: Int64
    epoch: Int64
    losing: Int64 = -1
    fence: str = ""
    end_position: Int64 = -1
