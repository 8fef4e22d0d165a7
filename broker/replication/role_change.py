"""A broker becomes the master of its set, or a slave: between two cores, while nothing uses the folder.

The core of the broker ends, its log loses the tail that the new master doesn't have, the new role is written, and a new
core begins with it. Clients stay connected. A kill in between leaves a folder that any role can start from.
"""

from collections.abc import Callable

import msgspec

from staticfire.broker.replication.lineage import Lineage, write_lineage
from staticfire.broker.store.cutting import clear_store, cut_store, forget_progress
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.requests.replication import SLAVE
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.machine import Files


class RoleChange(msgspec.Struct, frozen=True):
    """The next role of a broker, and what it removes from its log before."""

    lineage: Lineage
    role: str
    broker_id: int
    reason: str
    cut_position: int = -1
    """-1: nothing is removed."""
    is_cleared: bool = False
    """The whole log is removed."""
    deletions: dict[str, int] = {}
    lost_messages: int = -1
    """How many messages are removed on request; -1: what is removed is not by request, and isn't counted."""


ChangeRoleOf = Callable[[RoleChange, Call | None], None]
"""Changes the role of the broker soon, and then answers the request, if there is one. The caller's own core ends."""


def prepare_folder(files: Files, root: str, settings: StoreSettings, change: RoleChange, end_position: int) -> int:
    """Carry out what a change of roles does on the disk; return the number of removed records.

    `end_position`: where the log ends. Blocks. Raises: OSError, StorageError.
    """
    removed, lineage = 0, change.lineage
    if change.is_cleared:
        clear_store(files, root, change.deletions)
    elif change.cut_position >= 0:
        removed = cut_store(files, root, settings, (change.cut_position, end_position), change.deletions)
        if not removed and end_position > change.cut_position:
            # No record begins there, so the end will be another one again: what is before it is damaged.
            lineage = msgspec.structs.replace(lineage, is_damaged=change.role == SLAVE)
    else:
        forget_progress(files, root)
    write_lineage(files, root, lineage)
    return removed
