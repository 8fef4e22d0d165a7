"""Promises of a cluster, each as a class: it hears what happens, and says what was broken, when and why.

- `events.py`: what they hear; `checker.py`: what they are; `unrest.py`: when something was broken; `rewinds.py`: when a
  queue has become shorter
- `delivery.py`: nothing lost, all delivered, no duplicate without a cause, nothing early, transactions
- `order.py`: order in a queue, one owner; `offsets.py`: what groups commit; `dead_letters.py`: after how many retries
- `popping.py`: whose a popped message is, and for how long
- `ending.py`: rest, tables, nothing unnoticed

They know nothing of virtual time: fed with the events of a real cluster they say the same.
"""

from staticfire.simulation.checkers.checker import Checker, Checkers, Violation
from staticfire.simulation.checkers.dead_letters import DeadAfterMax
from staticfire.simulation.checkers.delivery import (
    DuplicatesExplained,
    Intact,
    NothingEarly,
    NothingLost,
    ReachesAll,
    StoredOnce,
    TransactionsKept,
)
from staticfire.simulation.checkers.ending import NothingUnnoticed, Settles, TablesComeBack
from staticfire.simulation.checkers.offsets import BeginsWhereItStands, OffsetsGrow
from staticfire.simulation.checkers.order import InOrder, OneOwner, OwnersAgree
from staticfire.simulation.checkers.popping import AcknowledgedForGood, HeldUntilItsTime

CHECKERS: tuple[type[Checker], ...] = (
    NothingLost,
    Intact,
    StoredOnce,
    ReachesAll,
    DuplicatesExplained,
    InOrder,
    OneOwner,
    OwnersAgree,
    OffsetsGrow,
    BeginsWhereItStands,
    HeldUntilItsTime,
    AcknowledgedForGood,
    NothingEarly,
    DeadAfterMax,
    TransactionsKept,
    Settles,
    TablesComeBack,
    NothingUnnoticed,
)

__all__ = ["CHECKERS", "Checker", "Checkers", "Violation"]
