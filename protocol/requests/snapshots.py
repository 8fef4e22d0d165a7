"""What a broker has, put away under a name and put back: for tests that begin with the same. staticfire's own."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request

SNAPSHOT_NAME_CHARS_MAX = 64


def snapshot_name_fault(name: str) -> str | None:
    """Return why a text is no name for a snapshot, which is that of a folder; None: it is one."""
    is_plain = all(one.isalnum() or one in "-_." for one in name) and name.isascii() and not name.startswith(".")
    if name and is_plain and len(name) <= SNAPSHOT_NAME_CHARS_MAX:
        return None
    return f"{name[:80]!r} is no name for a snapshot: up to {SNAPSHOT_NAME_CHARS_MAX} letters, digits, -, _ and ."


class SnapshotInfo(msgspec.Struct, rename="camel", gc=False):
    """What a snapshot has, without looking into it."""

    name: str
    saved_ms: int
    """By the real clock."""
    message_ms: int
    """What message time was."""
    clock_mode: str = ""
    """How message time went on; empty: with the real clock."""
    clock_rate: float = 1.0
    topics: list[str] = []
    """Those that users have made, in order."""
    groups: list[str] = []
    messages: int = 0
    """In all queues of these topics."""
    size_bytes: int = 0


class SnapshotAnswer(Answer, rename="camel"):
    """What was saved."""

    body_type: ClassVar[Any] = SnapshotInfo


class RestoredSnapshot(msgspec.Struct, rename="camel", gc=False):
    """What has come back, and what is gone for it."""

    snapshot: SnapshotInfo
    topics_gone: list[str] = []
    """Topics that were there before, and aren't in the snapshot: a nameserver keeps their routes until it is told."""
    queues_moved: int = 0
    """Queues in which connected consumers go on elsewhere."""


class RestoredAnswer(Answer, rename="camel"):
    """What has come back."""

    body_type: ClassVar[Any] = RestoredSnapshot


class SnapshotsAnswer(Answer, rename="camel"):
    """All that there are, by name."""

    body_type: ClassVar[Any] = list[SnapshotInfo]


@request(RequestCode.SAVE_SNAPSHOT, answer=SnapshotAnswer)
class SaveSnapshot(Request, rename="camel"):
    """Put everything away as it is now; a snapshot of that name is replaced."""

    name: str


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
