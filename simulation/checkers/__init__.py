"""The promises of a cluster, each checked by a class: it gets the events of a run and reports violations.

- `events.py`: the events; `checker.py`: the base class; `unrest.py`: the times of faults; `rewinds.py`: queues that
  have become shorter; `older_masters.py`: brokers with two masters; `losses.py`: what an end of a broker may destroy
- `delivery.py`: nothing lost, no duplicate without a cause, nothing early, transactions; `reaching.py`: everything
  delivered
- `contents.py`: a message is what its producer has sent
- `order.py`: order in a queue, one owner, its lock; `offsets.py`: committed offsets; `handing_over.py`: offsets of
  members that leave
- `sharing.py`: fair shares of queues; as many calls at the same time as threads
- `dead_letters.py`: after how many retries; `copies.py`: the number of stored retries and dead letters
- `lateness.py`: nothing is late without a fault; `returning.py`: nor are redeliveries; `asking.py`: nor are transaction
  checks, and no send fails; `busy.py`: whether members have time; `full_queues.py`: whether they take more messages
- `look_ups.py`: messages are found by id and key
- `placing.py`: the queue of delayed and half messages, and of a key; when half messages are moved away
- `popping.py`: who has a popped message, and for how long
- `filters.py`: groups with filters
- `broadcast.py`: groups in which each member gets all messages
- `exchanges.py`: recalled messages, requests and their replies
- `administration.py`: what administrators forbid and reset
- `replicas.py`, `replica_topics.py`: masters and slaves; `losses.py`: which ends take acknowledged messages
- `ending.py`: rest, tables, unnoticed errors

Checkers are independent of virtual time: for the events of a real cluster they give the same results.
"""

from staticfire.simulation.checkers.administration import ForbiddenKept, ResetsCarriedOut
from staticfire.simulation.checkers.asking import ChecksInTime, SendsSucceed
from staticfire.simulation.checkers.broadcast import ReachesEach
from staticfire.simulation.checkers.checker import Checker, Checkers, Violation
from staticfire.simulation.checkers.contents import ContentsKept
from staticfire.simulation.checkers.copies import CopiedOnce
from staticfire.simulation.checkers.dead_letters import DeadAfterMax
from staticfire.simulation.checkers.delivery import (
    DuplicatesExplained,
    Intact,
    NothingEarly,
    NothingLost,
    StoredOnce,
    TransactionsKept,
)
from staticfire.simulation.checkers.ending import NothingUnnoticed, Settles, TablesComeBack
from staticfire.simulation.checkers.exchanges import RecallsKept, RepliesKept
from staticfire.simulation.checkers.filters import FiltersKept, OwnTopicsOnly
from staticfire.simulation.checkers.handing_over import HandsOver
from staticfire.simulation.checkers.lateness import ArrivesInTime
from staticfire.simulation.checkers.look_ups import FoundByIdAndKey
from staticfire.simulation.checkers.offsets import BeginsWhereItStands, OffsetsGrow, OffsetsSaved
from staticfire.simulation.checkers.order import InOrder, LocksHeld, OneOwner, OwnersAgree
from staticfire.simulation.checkers.placing import ChecksOften, InItsQueue, KeyKeepsQueue
from staticfire.simulation.checkers.popping import AcknowledgedForGood, HeldUntilItsTime
from staticfire.simulation.checkers.reaching import ReachesAll
from staticfire.simulation.checkers.replica_topics import TopicsKept
from staticfire.simulation.checkers.replicas import OffsetsCopied, OneMaster, QuorumKept, ReplicasEqual
from staticfire.simulation.checkers.returning import RetriedInTime, ReturnsInTime
from staticfire.simulation.checkers.sharing import FairShares, ThreadsLimited

CHECKERS: tuple[type[Checker], ...] = (
    NothingLost,
    Intact,
    ContentsKept,
    InItsQueue,
    KeyKeepsQueue,
    FoundByIdAndKey,
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
    FairShares,
    ThreadsLimited,
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
    ChecksInTime,
    SendsSucceed,
    DeadAfterMax,
    CopiedOnce,
    TransactionsKept,
    ChecksOften,
    RecallsKept,
    RepliesKept,
    ForbiddenKept,
    ResetsCarriedOut,
    QuorumKept,
    OneMaster,
    ReplicasEqual,
    OffsetsCopied,
    TopicsKept,
    Settles,
    TablesComeBack,
    NothingUnnoticed,
)

__all__ = ["CHECKERS", "Checker", "Checkers", "Violation"]
