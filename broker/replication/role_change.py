"""A broker becomes the master of its set, or a slave: between two cores, while nothing uses the folder.

The core of the broker ends, its log loses the tail that the new master doesn't have, the new role is written, and a new
core begins with it. Clients stay connected. A kill in between leaves a folder that any role can start from.
"""

from collections.abc import Callable

import msgspec

from staticfire.broker.replication.epochs import newest
from staticfire.broker.replication.lineage import SYNC_MASTER, Lineage, write_lineage
from staticfire.broker.store.cutting import clear_store, cut_store, forget_progress
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.replication import SLAVE, ChangeRole
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.machine import Files

ASYNC_MASTER = "ASYNC_MASTER"
# Absent: the role of the last master.
ROLES = ("", ASYNC_MASTER, SYNC_MASTER, SLAVE)


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


def check_change(request: ChangeRole, lineage: Lineage, name: str) -> None:
    """Check that a broker can change its role as requested. Raises: BrokerAnswer."""
    # A master that has given way to an epoch has given it to one slave: no other failover can use it.
    known = lineage.least_epoch if request.role == SLAVE else max(newest(lineage.epochs), lineage.least_epoch)
    if known >= request.epoch:
        words = f"epoch {request.epoch} isn't newer than epoch {known}, which this broker knows"
        raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, words)
    if request.role not in ROLES:
        words = f"role {request.role}: it must be {', '.join(ROLES[1:])}, or absent"
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
    if (request.role == SLAVE) == (request.broker_id == MASTER_ID) or request.broker_id < MASTER_ID:
        words = f"role {request.role} with id {request.broker_id}: 0 is the id of the master"
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
    if not lineage.set_id:
        words = f"{name} at this address has never copied a master, nor been copied"
        raise BrokerAnswer(ResponseCode.ILLEGAL_OPERATION, words)


def role_change(role: str, broker_id: int, lineage: Lineage, reason: str) -> RoleChange:
    """Return the change to a role, in which nothing is removed."""
    kept = msgspec.structs.replace(lineage, role=role, broker_id=broker_id)
    return RoleChange(kept, role, broker_id, reason)


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
