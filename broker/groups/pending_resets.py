"""Resets that wait until the owner of the queue has taken them. Pure.

A broker doesn't know which member owns a queue: the members compute that themselves, and a member that gave up a queue
may still have a held pull there. So every pull of the queue is answered with the offset of the reset, until a
connection that received this response pulls from that offset: only an owner does that. A former owner ignores the
response and never pulls again.

    pull of the queue comes from                           then
    no member, while the group has members                 the pull is served as if there were no reset
    a connection that wasn't notified                      the connection is notified: continue at the reset's offset
    a notified connection, from the reset's offset         the reset is over, the pull is served
    a notified connection, from another offset             it is notified again: the first response may have been lost.
                                                           After `ANSWERS_MAX` responses the reset is over: the client
                                                           ignores them, or its program has chosen an offset.
"""

from collections.abc import Hashable

import msgspec

# RocketMQ notifies once. A client that ignores the response must not be kept from its messages forever.
ANSWERS_MAX = 3

# How many connections a reset remembers. Clients that reconnect again and again must not fill the memory.
READERS_MAX = 1_000


class PendingReset(msgspec.Struct):
    """The reset of one group in one queue."""

    offset: int
    answers: dict[Hashable, int] = {}
    """How often each connection was notified."""

    def notify(self, reader: Hashable) -> None:
        """Note that a connection is being notified."""
        if reader not in self.answers and len(self.answers) >= READERS_MAX:
            del self.answers[next(iter(self.answers))]
        self.answers[reader] = self.answers.get(reader, 0) + 1

    def ends_with(self, reader: Hashable, pull_offset: int) -> bool:
        """Return whether a new pull shows that its connection has taken the reset, or ignores it."""
        answers = self.answers.get(reader, 0)
        return answers >= ANSWERS_MAX or (answers > 0 and pull_offset == self.offset)
