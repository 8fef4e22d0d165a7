"""Save and restore the content of a broker under a name: for tests with the same initial state. staticfire's own."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int64

SNAPSHOT_NAME_CHARS_MAX = 64


def snapshot_name_fault(name: str) -> str | None:
    """Return why a text can't be the name of a snapshot, which is also a folder's name; None if it can."""
    is_plain = all(one.isalnum() or one in "-_." for one in name) and name.isascii() and not name.startswith(".")
    if name and is_plain and len(name) <= SNAPSHOT_NAME_CHARS_MAX:
        return None
    return (
        f"{name[:80]!r} is not a valid name of a snapshot: use up to {SNAPSHOT_NAME_CHARS_MAX} letters, digits, -, _ "
        "and ."
    )


class SnapshotInfo(msgspec.Struct, rename="camel", gc=False):
    """A summary of a snapshot's content."""

    name: str
    saved_ms: int
    """The time of the real clock."""
    message_ms: int
    """The message time at that moment."""
    clock_mode: str = ""
    """The mode of message time; empty: it follows the real clock."""
    clock_rate: float = 1.0
    topics: list[str] = []
    """The topics that users created, sorted."""
    groups: list[str] = []
    messages: int = 0
    """The number of messages in all queues of these topics."""
    size_bytes: int = 0
    save_id: str = ""
    """What the parts of one save have in common, if the cluster has several brokers."""


class SnapshotAnswer(Answer, rename="camel"):
    """The saved snapshot."""

    body_type: ClassVar[Any] = SnapshotInfo


class RestoredSnapshot(msgspec.Struct, rename="camel", gc=False):
    """What was restored, and what was removed for it."""

    snapshot: SnapshotInfo
    topics_gone: list[str] = []
    """The earlier topics that aren't in the snapshot. A nameserver keeps their routes until they are deleted there."""
    queues_moved: int = 0
    """The queues in which connected consumers continue at another offset."""


class RestoredAnswer(Answer, rename="camel"):
    """What was restored."""

    body_type: ClassVar[Any] = RestoredSnapshot


class SnapshotsAnswer(Answer, rename="camel"):
    """All snapshots, by name."""

    body_type: ClassVar[Any] = list[SnapshotInfo]


@request(RequestCode.SAVE_SNAPSHOT, answer=SnapshotAnswer)
class SaveSnapshot(Request, rename="camel"):
    """Put everything away as it is now; a snapshot of that name is replaced, unless `pending`."""

    name: str
    pending: bool = False
    """Put it next to the snapshot of that name, until `KeepSnapshot`."""


@request(RequestCode.RESTORE_SNAPSHOT, answer=RestoredAnswer)
class RestoreSnapshot(Request, rename="camel"):
    """Put everything back as it was then; what is there now is gone."""

    name: str


@request(RequestCode.GET_SNAPSHOTS, answer=SnapshotsAnswer)
class GetSnapshots(Request, rename="camel"):
    """Tell which snapshots there are."""


@request(RequestCode.REMOVE_SNAPSHOT)
class RemoveSnapshot(Request, rename="camel"):
    """Remove one."""

    name: str
    pending_ms: Int64 = 0
    """Remove the pending one of that name that was saved then; 0: the snapshot."""


@request(RequestCode.KEEP_SNAPSHOT)
class KeepSnapshot(Request, rename="camel"):
    """Let a pending snapshot replace the one of its name: all brokers have saved their parts."""

    name: str
    saved_ms: Int64
    """When it was saved: another one may be pending meanwhile."""
    save_id: str
    """What it has in common with the parts of the other brokers."""
