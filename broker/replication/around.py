"""The parts of a broker that replication uses."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from staticfire.broker.handlers.access import AccessHandlers
from staticfire.broker.handlers.assignment import AssignmentHandlers
from staticfire.broker.registration import Registration
from staticfire.broker.tables import BrokerTables
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import Pause, Spawn

if TYPE_CHECKING:
    from staticfire.broker.journal.events import EventJournal
    from staticfire.broker.replication.role_change import ChangeRoleOf


class BrokerAround(NamedTuple):
    """What replication uses of the rest of its broker."""

    tables: BrokerTables
    registration: Registration
    assignments: AssignmentHandlers
    access: AccessHandlers
    pool: ConnectionPool
    first_waiting: Callable[[], int | None]
    """Returns the log position of the oldest waiting message. Raises: StorageError."""
    settle: Callable[[], None]
    """Writes the burst."""
    answer_held: Callable[[str], None]
    """Responds to the held pulls of a topic that was deleted."""
    change_role: "ChangeRoleOf"
    spawn: Spawn
    pause: Pause

    @property
    def events(self) -> "EventJournal | None":
        """The journal of events; None if the broker keeps none."""
        journals = self.tables.journals
        return None if journals is None else journals.events
