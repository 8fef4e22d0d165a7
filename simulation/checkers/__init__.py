"""Promises of a cluster, each as a class: it hears what happens, and says what was broken, when and why.

- `events.py`: what they hear; `checker.py`: what they are; `unrest.py`: when something was broken; `rewinds.py`: when a
  queue has become shorter
- `delivery.py`: nothing lost, all delivered, no duplicate without a cause, nothing early, transactions
- `order.py`: order in a queue, one owner, its lock; `offsets.py`: what groups commit; `handing_over.py`: what members
  that leave tell; `dead_letters.py`: after how many retries; `copies.py`: how many retries and dead letters there are
- `lateness.py`: nothing is late while nothing is broken; `returning.py`: nor what comes again; `asking.py`: nor are
  questions about transactions, and no send fails then; `busy.py`: whether members have time
- `placing.py`: the queue of what waited for its time or its transaction; when half messages are put aside
- `popping.py`: whose a popped message is, and for how long
- `filters.py`: groups that want some messages only
- `broadcast.py`: groups in which each member gets all messages
- `exchanges.py`: messages that were called back, requests and their replies
- `administration.py`: what administrators forbid and reset
- `ending.py`: rest, tables, nothing unnoticed

They know nothing of virtual time: fed with the events of a real cluster they say the same.
"""

from staticfire.simulation.checkers.administration import ForbiddenKept, ResetsCarriedOut
from staticfire.simulation.checkers.asking import AskedInTime, SendsSucceed
from staticfire.simulation.checkers.broadcast import ReachesEach
from staticfire.simulation.checkers.checker import Checker, Checkers, Violation
from staticfire.simulation.checkers.copies import CopiedOnce
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
from staticfire.simulation.checkers.exchanges import RecallsKept, RepliesKept
from staticfire.simulation.checkers.filters import FiltersKept, OwnTopicsOnly
from staticfire.simulation.checkers.handing_over import HandsOver
from staticfire.simulation.checkers.lateness import ArrivesInTime
from staticfire.simulation.checkers.offsets import BeginsWhereItStands, OffsetsGrow, OffsetsSaved
from staticfire.simulation.checkers.order import InOrder, LocksHeld, OneOwner, OwnersAgree
from staticfire.simulation.checkers.placing import AskedOften, InItsQueue
from staticfire.simulation.checkers.popping import AcknowledgedForGood, HeldUntilItsTime
from staticfire.simulation.checkers.returning import RetriedInTime, ReturnsInTime

CHECKERS: tuple[type[Checker], ...] = (
    NothingLost,
    Intact,
    InItsQueue,
    StoredOnce,
    ReachesAll,
    OwnTopicsOnly,
    FiltersKept,
    ReachesEach,
    DuplicatesExplained,
    InOrder,
    OneOwner,
    LocksHeld,
    OwnersAgree,
    OffsetsGrow,
    OffsetsSaved,
    BeginsWhereItStands,
    HandsOver,
    HeldUntilItsTime,
    AcknowledgedForGood,
    NothingEarly,
    ArrivesInTime,
    RetriedInTime,
    ReturnsInTime,
    AskedInTime,
    SendsSucceed,
    DeadAfterMax,
    CopiedOnce,
    TransactionsKept,
    AskedOften,
    RecallsKept,
    RepliesKept,
    ForbiddenKept,
    ResetsCarriedOut,
    Settles,
    TablesComeBack,
    NothingUnnoticed,
)

__all__ = ["CHECKERS", "Checker", "Checkers", "Violation"]
