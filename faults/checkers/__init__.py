"""Promises of a cluster, each as a class: it hears what happens, and says what was broken, when and why.

- `events.py`: what they hear; `checker.py`: what they are; `unrest.py`: when something was broken; `rewinds.py`: when a
  queue has become shorter
- `delivery.py`: nothing lost, all delivered, no duplicate without a cause, nothing early, transactions
- `order.py`: order in a queue, one owner; `offsets.py`: what groups commit; `dead_letters.py`: after how many retries
- `popping.py`: whose a popped message is, and for how long
- `filters.py`: groups that want some messages only
- `broadcast.py`: groups in which each member gets all messages
- `exchanges.py`: messages that were called back, requests and their replies
- `administration.py`: what administrators forbid and reset
- `ending.py`: rest, tables, nothing unnoticed

They know nothing of virtual time: fed with the events of a real cluster they say the same.
"""

from staticfire.faults.checkers.administration import ForbiddenKept, ResetsCarriedOut
from staticfire.faults.checkers.broadcast import ReachesEach
from staticfire.faults.checkers.checker import Checker, Checkers, Violation
from staticfire.faults.checkers.dead_letters import DeadAfterMax
from staticfire.faults.checkers.delivery import (
    DuplicatesExplained,
    Intact,
    NothingEarly,
    NothingLost,
    ReachesAll,
    StoredOnce,
    TransactionsKept,
)
from staticfire.faults.checkers.ending import NothingUnnoticed, Settles, TablesComeBack
from staticfire.faults.checkers.exchanges import RecallsKept, RepliesKept
from staticfire.faults.checkers.filters import FiltersKept, OwnTopicsOnly
from staticfire.faults.checkers.offsets import BeginsWhereItStands, OffsetsGrow
from staticfire.faults.checkers.order import InOrder, OneOwner, OwnersAgree
from staticfire.faults.checkers.popping import AcknowledgedForGood, HeldUntilItsTime

CHECKERS: tuple[type[Checker], ...] = (
    NothingLost,
    Intact,
    StoredOnce,
    ReachesAll,
    OwnTopicsOnly,
    FiltersKept,
    ReachesEach,
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
    RecallsKept,
    RepliesKept,
    ForbiddenKept,
    ResetsCarriedOut,
    Settles,
    TablesComeBack,
    NothingUnnoticed,
)

__all__ = ["CHECKERS", "Checker", "Checkers", "Violation"]
