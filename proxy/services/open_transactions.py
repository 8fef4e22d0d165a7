"""Transactions that clients may still end: the places of their half messages. Pure. RocketMQ: TransactionDataManager.

An entry is kept for TRANSACTION_KEPT_MS after the send and after each check. Ending the transaction removes it.
"""

from bisect import insort
from typing import NamedTuple

from staticfire.protocol.times import UptimeMs

TRANSACTION_KEPT_MS = 30_000
PER_KEY_MAX = 15
TRANSACTIONS_MAX = 100_000


class OpenTransaction(NamedTuple):
    """A half message. `state_offset`: its offset in the queue of half messages.

    The broker is known by its name: after a failover, another address is that of its master, which has the same log.
    """

    broker_name: str
    state_offset: int
    log_position: int
    message_id: str
    forgotten_ms: UptimeMs


class OpenTransactions:
    """Open transactions by topic and transaction id."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], list[OpenTransaction]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, topic: str, transaction_id: str, transaction: OpenTransaction) -> None:
        """Add a transaction. If there are too many, the oldest are removed."""
        self._open.setdefault((topic, transaction_id), []).append(transaction)
        self._limit(topic, transaction_id)

    def put_back(self, topic: str, transaction_id: str, transaction: OpenTransaction) -> None:
        """Add a transaction that was taken and hasn't ended. Checks that arrived meanwhile remain newer."""
        insort(self._open.setdefault((topic, transaction_id), []), transaction, key=_age)
        self._limit(topic, transaction_id)

    def _limit(self, topic: str, transaction_id: str) -> None:
        del self._open[topic, transaction_id][:-PER_KEY_MAX]
        while len(self._open) > TRANSACTIONS_MAX:
            del self._open[next(iter(self._open))]

    def take(self, topic: str, transaction_id: str, uptime_ms: UptimeMs) -> OpenTransaction | None:
        """Remove and return the newest entry of a transaction; None if there is none or it is too old."""
        known = self._open.get((topic, transaction_id))
        if not known:
            return None
        newest = known.pop()
        if not known or newest.forgotten_ms <= uptime_ms:
            del self._open[topic, transaction_id]
        return newest if newest.forgotten_ms > uptime_ms else None

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Remove the entries that are too old."""
        for key, known in list(self._open.items()):
            if known[-1].forgotten_ms <= uptime_ms:
                del self._open[key]


def _age(transaction: OpenTransaction) -> tuple[int, int]:
    """Return a number pair that is higher for newer entries of one transaction."""
    return transaction.forgotten_ms, transaction.log_position
