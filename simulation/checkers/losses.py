"""Which ends of a process may take acknowledged messages with them.

A broker with slaves is one broker for checkers (`simulation/runs/replicas.py`). Its process ends with GONE when it has
no master any more, and then with FAILED_OVER when a machine serves again: messages from `safe_position` on are gone.
These may be acknowledged ones unless acknowledgements wait for copies. LOST_MORE: as many machines have lost data as
have each message, or an administrator has accepted the loss.
"""

from staticfire.simulation.checkers.events import ProcessEnded
from staticfire.simulation.workload.description import Brokers

GONE, FAILED_OVER, LOST_MORE = "gone", "failed over", "lost more"
WITHOUT_DATA = ("without power", "crashed")
"""Ends of a machine after which its log may be shorter."""
SHORTENING = (*WITHOUT_DATA, FAILED_OVER, LOST_MORE)


def takes_acknowledged(ended: ProcessEnded, brokers: Brokers) -> bool:
    """Return whether acknowledged messages may be gone after the end of a process."""
    if ended.how == LOST_MORE:
        return True
    if ended.how == FAILED_OVER:
        return brokers.copies_awaited == 1
    if brokers.replicas and ended.who in brokers.machines:
        return False  # Its broker has other machines: what is lost is seen when one of them serves.
    return ended.how in WITHOUT_DATA and not brokers.flushes_at_once
