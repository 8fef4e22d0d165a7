"""Messages that clients are working on, and whose invisible time is renewed meanwhile. Pure.

A push consumer requests it (`auto_renew`). When the invisible time of a message is nearly over, it is extended, until
the client acknowledges the message or is gone. Each renewal creates a new handle; the client's first handle is then
replaced by the newest. RocketMQ: ReceiptHandleManager. 5.3.3 never starts its loop; this is what HEAD does.
"""

import asyncio

import msgspec

from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.proxy.services.receipts import MessagePlace, Receipt

RENEW_EVERY_MS = 5_000
RENEW_AHEAD_MS = 10_000
INVISIBLE_MS = 60_000
"""The first invisible time."""
RENEW_FOR_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
FAILURES_MAX = 3
WORK_MS_MAX = 3 * 3_600_000
HELD_MAX = 100_000
"""Over all clients. Messages above it are redelivered when their first invisible time is over."""

_Key = tuple[str, str]


class HeldMessage(msgspec.Struct, gc=False, eq=False):
    """One message with its newest handle."""

    client_id: str
    group: str
    topic: str
    message_id: str
    receipt: Receipt
    began_ms: UptimeMs
    reconsume_times: int
    renewals: int = 0
    failures: int = 0
    renewing: "asyncio.Future[None] | None" = None
    """Set while a renewal is in flight: it changes the handle."""
    dead_words: str | None = None
    """The broker's response when it stored the dead letter. Set while only the acknowledgement is missing."""
    burying: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Locked while its dead letter is being stored."""
    settling: int = 0
    """The number of requests of its client in flight. Meanwhile it is neither renewed nor returned."""

    @property
    def place(self) -> MessagePlace:
        """The key of the message among those of its client and group."""
        return self.receipt.place(self.topic)


class HeldMessages:
    """The held messages of all clients, by client and group."""

    def __init__(self) -> None:
        self._held: dict[_Key, dict[MessagePlace, HeldMessage]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, held: HeldMessage) -> bool:
        """Add a message. Return whether there was room."""
        if self._count >= HELD_MAX:
            return False
        messages = self._held.setdefault((held.client_id, held.group), {})
        place = held.place
        self._count += place not in messages
        messages[place] = held
        return True

    def find(self, client_id: str, group: str, place: MessagePlace, message_id: str) -> HeldMessage | None:
        """Return a message; None if it isn't held."""
        messages = self._held.get((client_id, group))
        held = messages.get(place) if messages else None
        return None if held is None or (message_id and held.message_id != message_id) else held

    def take(self, client_id: str, group: str, place: MessagePlace, message_id: str) -> HeldMessage | None:
        """Remove a message and return it; None if it isn't held."""
        held = self.find(client_id, group, place, message_id)
        if held is not None:
            self._drop(held)
        return held

    def owners(self) -> list[tuple[str, str]]:
        """Return the client and group of all messages, each pair once."""
        return list(self._held)

    def take_client(self, client_id: str, group: str) -> list[HeldMessage]:
        """Remove and return the messages of a client, except those with a request in flight."""
        taken = [held for held in self._held.get((client_id, group), {}).values() if not held.settling]
        for held in taken:
            self._drop(held)
        return taken

    def take_renewed(self) -> list[HeldMessage]:
        """Remove and return the messages whose client has an older handle, except those with a request in flight."""
        taken = [
            held
            for messages in self._held.values()
            for held in messages.values()
            if (held.renewals or held.renewing is not None) and not held.settling
        ]
        for held in taken:
            self._drop(held)
        return taken

    def expiring(self, message_ms: MessageMs) -> list[HeldMessage]:
        """Return the messages that would soon be visible again, except those with a renewal or request in flight."""
        return [
            held
            for messages in self._held.values()
            for held in messages.values()
            if held.renewing is None and not held.settling and held.receipt.visible_ms - message_ms <= RENEW_AHEAD_MS
        ]

    def renewed(self, held: HeldMessage, receipt: Receipt) -> None:
        """Note a renewal: the message has a new handle."""
        held.receipt = receipt
        held.renewals += 1
        held.failures = 0

    def failed(self, held: HeldMessage) -> bool:
        """Note a failed renewal. Return whether the message is given up now."""
        held.failures += 1
        if held.failures >= FAILURES_MAX and self.is_held(held):
            self._drop(held)
            return True
        return False

    def give_up(self, held: HeldMessage) -> None:
        """Remove a message if it is held."""
        if self.is_held(held):
            self._drop(held)

    def is_held(self, held: HeldMessage) -> bool:
        """Return whether a message is still held."""
        return self._held.get((held.client_id, held.group), {}).get(held.place) is held

    def _drop(self, held: HeldMessage) -> None:
        messages = self._held[held.client_id, held.group]
        del messages[held.place]
        self._count -= 1
        if not messages:
            del self._held[held.client_id, held.group]


def renew_for_ms(renewals: int) -> int:
    """Return for how long a message is made invisible, by the number of its renewals."""
    return RENEW_FOR_MS[min(renewals, len(RENEW_FOR_MS) - 1)]
