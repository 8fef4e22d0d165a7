"""Notify the members of large groups to rebalance, a few per turn of the event loop.

A small group's members are all notified at once, as in RocketMQ (DefaultConsumerIdsChangeListener). If a thousand
members join one by one, that is half a million notifications, and the joins wait for them. Here a member that waits for
its turn gets one notification for all changes so far.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice

from staticfire.protocol.requests.clients import NotifyConsumerIdsChanged
from staticfire.runtime.connection import Connection

PER_TURN = 16


class MemberNotices:
    """The members that wait for their turn."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Connection, None]] = {}
        """By group, oldest first."""
        self._turn: asyncio.Handle | None = None

    def notify(self, group: str, members: Iterable[Connection]) -> None:
        """Notify these members of a group in the next turns."""
        self._waiting[group] = {**self._waiting.get(group, {}), **dict.fromkeys(members)}
        self._plan()

    def _plan(self) -> None:
        if self._turn is None and self._waiting:
            self._turn = asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Notify some members of the group that has waited longest; another group is first in the next turn."""
        self._turn = None
        group = next(iter(self._waiting))
        waiting = self._waiting.pop(group)
        for connection in list(islice(waiting, PER_TURN)):
            del waiting[connection]
            if connection.is_open:
                connection.tell(NotifyConsumerIdsChanged(group))
        if waiting:
            self._waiting[group] = waiting
        self._plan()
