"""Save the contents of the broker under a name, and restore them. Specific to staticfire; see broker/snapshots/.

Behaviour
- A snapshot has messages, topics, groups, offsets, waiting messages, open transactions, the key index, message time.
- A restore replaces all of it at once. Clients stay connected, and group members continue at the restored offsets.
- Meanwhile requests are not answered: they wait, for about twenty milliseconds.

Not done
- Fault rules, the journal, statistics and queue locks are temporary: they are not part of a snapshot and don't change.
"""

from collections.abc import Callable

from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.snapshots import SnapshotsAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher

SnapshotCalls = Callable[[Call], None]
"""Saves, keeps, restores or removes a snapshot, and answers the request later; one request at a time. Meanwhile the
core of the broker that received the request may be replaced."""


class SnapshotHandlers:
    """Handles requests about snapshots."""

    def __init__(self, state: BrokerState, change: SnapshotCalls) -> None:
        self._machine = state.machine
        self._root = state.settings.store_path_root_dir
        self._change = change

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.SAVE_SNAPSHOT, self._change)
        dispatcher.handle(RequestCode.RESTORE_SNAPSHOT, self._change)
        dispatcher.handle(RequestCode.GET_SNAPSHOTS, self.all)
        dispatcher.handle(RequestCode.REMOVE_SNAPSHOT, self._change)
        dispatcher.handle(RequestCode.KEEP_SNAPSHOT, self._change)

    async def all(self, call: Call) -> Answer:
        """Return the list of snapshots."""
        from staticfire.broker.snapshots.folder import SnapshotFolder  # imported here: most brokers never save one

        folder = SnapshotFolder(self._machine.files, self._root)
        return SnapshotsAnswer(body=await self._machine.workers.run(folder.all))
