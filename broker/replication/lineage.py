"""The identity of a log, its epochs, and the role that its broker had last. One file, next to the log.

    <root>/replication.json      exists once the broker was a master with a slave, or a slave

The file wins over brokerRole and brokerId of the settings, because a failover changes both while they stay as they were
written. Invariant: the epochs begin in order, below or at the end of the log.
"""

from dataclasses import replace

import msgspec

from staticfire.broker.replication.epochs import begun_again
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.replication import SLAVE, Epoch
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.machine import Files
from staticfire.runtime.state_file import read_state_file, replace_state_file

FILE = "replication.json"
SYNC_MASTER = "SYNC_MASTER"


class Lineage(msgspec.Struct, rename="camel", frozen=True):
    """What a broker must know about its log when it starts."""

    set_id: str = ""
    """Random; the log and all its copies have the same."""
    epochs: list[Epoch] = []
    role: str = ""
    broker_id: int = 0
    broker_name: str = ""
    master_role: str = ""
    """The role of the last master that this broker copied."""
    least_epoch: int = 0
    """This slave follows no master of an older epoch: another broker has taken over meanwhile."""
    is_damaged: bool = False
    """This slave's log was damaged in its middle: it removes it when there is a master from which to copy it."""


def read_lineage(files: Files, root: str) -> Lineage:
    """Return the content of the file; an empty one if there is none. Raises: StorageError."""

    def read(data: bytes) -> Lineage:
        return msgspec.json.decode(data, type=Lineage)

    words = "without it the broker doesn't know its role: repair it, or start the slave with an empty folder"
    return read_state_file(files, f"{root}/{FILE}", read, words) or Lineage()


def write_lineage(files: Files, root: str, lineage: Lineage) -> None:
    """Replace the file. Blocks. Raises: OSError."""
    files.make_folder(root)
    replace_state_file(files, f"{root}/{FILE}", msgspec.json.format(msgspec.json.encode(lineage), indent=1))


def begin_other_log(files: Files, root: str) -> None:
    """Begin an epoch at position 0, because the log is about to be replaced: the slaves copy all of the new one.

    It does nothing if the broker has never had a slave. Blocks. Raises: StorageError, OSError.
    """
    lineage = read_lineage(files, root)
    if lineage.set_id:
        number = 1 + max(epoch.epoch for epoch in lineage.epochs)
        write_lineage(files, root, msgspec.structs.replace(lineage, epochs=[Epoch(number, 0)]))


def new_life(lineage: Lineage, position: int) -> Lineage:
    """Return the lineage of a master that begins again with a log that ends at a position."""
    if not lineage.set_id:
        return lineage
    return msgspec.structs.replace(lineage, epochs=begun_again(lineage.epochs, position))


def is_slave(settings: BrokerSettings) -> bool:
    """Return whether a broker with these settings is a slave."""
    return settings.broker_role == SLAVE


def waits_for_copies(settings: BrokerSettings) -> bool:
    """Return whether sends to a broker with these settings wait for its slaves."""
    return settings.broker_role == SYNC_MASTER and (settings.in_sync_replicas > 1 or settings.all_ack_in_sync_state_set)


def has_replicas(settings: BrokerSettings) -> bool:
    """Return whether a broker with these settings is a slave, or a master that is meant to have slaves."""
    is_master_of_slaves = settings.slave_read_enable or settings.enable_slave_acting_master
    return is_slave(settings) or settings.broker_role == SYNC_MASTER or is_master_of_slaves


def with_last_role(files: Files, settings: BrokerSettings) -> BrokerSettings:
    """Return the settings with the role that the broker had last. Raises: StorageError, UsageError."""
    if settings.broker_role == SLAVE and settings.broker_id == MASTER_ID:
        raise UsageError("brokerRole=SLAVE needs a brokerId above 0: 0 is the id of the master")
    lineage = read_lineage(files, settings.store_path_root_dir)
    if lineage.broker_name and lineage.broker_name != settings.broker_name:
        words = f"{settings.store_path_root_dir} is the folder of {lineage.broker_name}, not of {settings.broker_name}"
        raise UsageError(f"{words}: give each broker a folder of its own")
    if not lineage.role:
        return settings
    role = lineage.role
    if role != SLAVE and settings.broker_role != SLAVE:
        role = settings.broker_role  # Whether a master waits for its slaves is a matter of its settings.
    return replace(settings, broker_role=role, broker_id=lineage.broker_id)
