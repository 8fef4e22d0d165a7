"""Save, keep, restore or remove one snapshot, from its request to its response.

To save or restore one, the core of the broker ends, and a new one begins.
"""

from staticfire.broker.replication.lineage import begin_other_log
from staticfire.broker.request_families import NextCore
from staticfire.broker.snapshots.folder import SnapshotFolder, check_name
from staticfire.broker.snapshots.gate import Gate
from staticfire.broker.snapshots.info import clock_then, describe
from staticfire.broker.snapshots.reset_consumers import reset_consumers
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.requests.snapshots import (
    KeepSnapshot,
    RemoveSnapshot,
    RestoredAnswer,
    RestoredSnapshot,
    RestoreSnapshot,
    SaveSnapshot,
    SnapshotAnswer,
)
from staticfire.runtime.log import logger

log = logger("broker")


async def change(
    request: SaveSnapshot | KeepSnapshot | RestoreSnapshot | RemoveSnapshot, tables: BrokerTables, core: NextCore
) -> Answer:
    """Save, keep, restore or remove; return the response.

    Raises: BrokerAnswer, StorageError, and what `begin` raises.
    """
    state = tables.state
    machine, settings = state.machine, state.settings
    folder = SnapshotFolder(machine.files, settings.store_path_root_dir)
    check_name(request.name)
    if isinstance(request, KeepSnapshot | RemoveSnapshot):
        await machine.workers.run(_change_files, folder, request)
        return Answer()
    _require_allowed(tables, core)
    is_save = isinstance(request, SaveSnapshot)
    pending = isinstance(request, SaveSnapshot) and request.pending
    if not is_save:
        await machine.workers.run(folder.stage, request.name)
    info = describe(tables, request.name) if is_save else await machine.workers.run(folder.info, request.name)
    _require_allowed(tables, core)  # Again: the copy of a snapshot takes long.
    gates = [Gate(dispatcher) for dispatcher, _ in core.dispatchers()]
    for gate in gates:
        gate.close()
    topics = set(tables.topics.user_topics())
    trouble: StorageError | None = None
    try:
        await core.end()
        if is_save:
            info = await machine.workers.run(folder.save, info, pending)
        else:
            await machine.workers.run(begin_other_log, machine.files, settings.store_path_root_dir)
            await machine.workers.run(folder.restoring.put_back)
    except StorageError as error:
        if await machine.workers.run(folder.restoring.is_partly_restored):
            raise  # The broker ends: what a new core stored would be lost when the rest of the snapshot is restored.
        trouble = error
    is_back = not is_save and trouble is None
    reading = clock_then(info, state.clock, machine.clock.wall_ms()) if is_back else None
    now = await core.begin(reading, None)
    handles = [gate.open(own, core.lost) for gate, (_, own) in zip(gates, core.dispatchers(), strict=True)]
    moved = reset_consumers(now, tables.groups.offsets) if is_back else 0
    for handle in handles:
        handle()
    if trouble is not None:
        raise trouble
    if is_save:
        return SnapshotAnswer(body=info)
    log.info("snapshot_put_back", snapshot=info.name, queues_moved=moved)
    return RestoredAnswer(body=RestoredSnapshot(info, sorted(topics - set(now.topics.user_topics())), moved))


def _change_files(folder: SnapshotFolder, request: KeepSnapshot | RemoveSnapshot) -> None:
    """Keep or remove one; the core stays. Raises: BrokerAnswer, StorageError, OSError."""
    if isinstance(request, KeepSnapshot):
        folder.keep(request.name, request.saved_ms, request.save_id)
    else:
        folder.remove(request.name, request.pending_ms)


def _require_allowed(tables: BrokerTables, core: NextCore) -> None:
    """Raise BrokerAnswer if the core may not end now."""
    tables.changes.require_allowed()  # A master that hands over stays as it is: the slave couldn't copy another log.
    for dispatcher, _ in core.dispatchers():
        if dispatcher.is_intercepted:
            raise BrokerAnswer(
                ResponseCode.SYSTEM_ERROR, "fault rules are active: remove them before you save or restore a snapshot"
            )
