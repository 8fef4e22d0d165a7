"""What the broker has, put away under a name and put back. staticfire's own; broker/snapshots/ does it.

Behaviour
- Saved are messages, topics, groups, offsets, what waits and what is half done, the key index, message time.
- Put back is all of it at once. Clients stay connected; members of groups go on where their groups stood then.
- Nobody is answered meanwhile: requests wait, some twenty milliseconds.

Not done
- Fault rules, the journal, statistics and queue locks are of no moment: they stay as they are.
"""

from collections.abc import Callable

from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.snapshots import SnapshotsAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher

SnapshotCalls = Callable[[Call], None]
"""Answers a request to save, restore or remove, later: one at a time, and the core that was asked may end meanwhile."""


class SnapshotHandlers:
    """Requests about snapshots."""

    def __init__(self, state: BrokerState, change: SnapshotCalls) -> None:
        self._machine = state.machine
        self._root = state.settings.store_path_root_dir
        self._change = change

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handlers."""
        dispatcher.handle(RequestCode.SAVE_SNAPSHOT, self._change)
        dispatcher.handle(RequestCode.RESTORE_SNAPSHOT, self._change)
        dispatcher.handle(RequestCode.GET_SNAPSHOTS, self.all)
        dispatcher.handle(RequestCode.REMOVE_SNAPSHOT, self._change)

    async def all(self, call: Call) -> Answer:
        """Which there are."""
        from staticfire.broker.snapshots.folder import SnapshotFolder  # here: most brokers never save one

        folder = SnapshotFolder(self._machine.files, self._root)
        return SnapshotsAnswer(body=await self._machine.workers.run(folder.all))
