"""Change the role of a broker: end its core, prepare the folder, begin the next core with the new role."""

from dataclasses import replace

from staticfire.broker.replication.epochs import newest
from staticfire.broker.replication.role_change import RoleChange, prepare_folder
from staticfire.broker.request_families import NextCore
from staticfire.broker.snapshots.gate import Gate
from staticfire.broker.tables import BrokerTables
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.replication import SLAVE, RoleAnswer
from staticfire.runtime.log import logger

log = logger("replication")


async def take_role(change: RoleChange, tables: BrokerTables, core: NextCore) -> Answer:
    """Take a role; return the response. Raises: StorageError, OSError, and what `begin` raises."""
    state = tables.state
    machine, settings = state.machine, state.settings
    for dispatcher, _ in core.dispatchers():
        if dispatcher.is_intercepted:
            log.warning("faults_removed", reason="the fault rules of this broker ended with its role")
            dispatcher.intercept(None)
    gates = [Gate(dispatcher) for dispatcher, _ in core.dispatchers()]
    for gate in gates:
        gate.close()
    removed = 0
    trouble: StorageError | OSError | None = None
    try:
        await core.end()
        folder, store = settings.store_path_root_dir, state.store
        removed = await machine.workers.run(
            prepare_folder, machine.files, folder, store.settings, change, store.max_position
        )
        settings = replace(settings, broker_role=change.role, broker_id=change.broker_id)
        if change.role != SLAVE:
            settings = replace(settings, replication_hold=False, replication_lag_ms=0)
    except (StorageError, OSError) as error:
        trouble = error
    now = await core.begin(None, settings)
    handles = [gate.open(own, core.lost) for gate, (_, own) in zip(gates, core.dispatchers(), strict=True)]
    for handle in handles:
        handle()
    if trouble is not None:
        raise trouble
    log.warning(
        "role_changed", role=change.role, broker_id=change.broker_id, reason=change.reason, removed_records=removed
    )
    if now.journals is not None and now.journals.events is not None:
        epoch = newest(change.lineage.epochs)
        now.journals.events.role_changed(change.role, change.broker_id, epoch, change.reason, removed)
    return RoleAnswer(removed if change.lost_messages < 0 else change.lost_messages)
