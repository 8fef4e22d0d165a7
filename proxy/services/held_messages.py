"""Messages that clients work on, and that aren't given to anybody else while they do. Pure.

A push consumer asks for it (`auto_renew`): a message whose invisible time is nearly over is made invisible for longer,
until the client is done with it, or gone. Each time it gets another handle, and the first one, which the client has,
stands for the newest. RocketMQ: ReceiptHandleManager, whose loop 5.3.3 never starts; this is what HEAD does.
"""

import asyncio

import msgspec

from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.proxy.services.receipts import MessagePlace, Receipt

RENEW_EVERY_MS = 5_000
RENEW_AHEAD_MS = 10_000
INVISIBLE_MS = 60_000
"""The first time."""
RENEW_FOR_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
FAILURES_MAX = 3
WORK_MS_MAX = 3 * 3_600_000
HELD_MAX = 100_000
"""Of all clients. What is above comes again when its first invisible time is over."""

_Key = tuple[str, str]


class HeldMessage(msgspec.Struct, gc=False, eq=False):
    """One message, with the handle that counts now."""

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
    """While a broker is asked: the handle is another one afterwards."""


class HeldMessages:
    """Those of all clients, by client and group."""

    def __init__(self) -> None:
        self._held: dict[_Key, dict[MessagePlace, HeldMessage]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, held: HeldMessage) -> bool:
        """Take in a message; return whether there was room."""
        if self._count >= HELD_MAX:
            return False
        messages = self._held.setdefault((held.client_id, held.group), {})
        self._count += held.receipt.place not in messages
        messages[held.receipt.place] = held
        return True

    def take(self, client_id: str, group: str, receipt: Receipt, message_id: str) -> HeldMessage | None:
        """Stop holding a message; return it, None when it isn't held."""
        messages = self._held.get((client_id, group))
        held = messages.get(receipt.place) if messages else None
        if messages is None or held is None or (message_id and held.message_id != message_id):
            return None
        self._drop(held)
        return held

    def take_client(self, client_id: str, group: str) -> list[HeldMessage]:
        """Stop holding what a client has; return it."""
        messages = self._held.pop((client_id, group), {})
        self._count -= len(messages)
        return list(messages.values())

    def expiring(self, message_ms: MessageMs) -> list[HeldMessage]:
        """Return those that would come again soon, without those that a broker is being asked about."""
        return [
            held
            for messages in self._held.values()
            for held in messages.values()
            if held.renewing is None and held.receipt.visible_ms - message_ms <= RENEW_AHEAD_MS
        ]

    def renewed(self, held: HeldMessage, receipt: Receipt) -> None:
        """A message has another handle."""
        held.receipt = receipt
        held.renewals += 1
        held.failures = 0

    def failed(self, held: HeldMessage) -> bool:
        """A message couldn't be held on; return whether it is given up now."""
        held.failures += 1
        if held.failures >= FAILURES_MAX and self.is_held(held):
            self._drop(held)
            return True
        return False

    def give_up(self, held: HeldMessage) -> None:
        """Hold a message no longer."""
        if self.is_held(held):
            self._drop(held)

    def is_held(self, held: HeldMessage) -> bool:
        """Whether a message is still held."""
        return self._held.get((held.client_id, held.group), {}).get(held.receipt.place) is held

    def _drop(self, held: HeldMessage) -> None:
        messages = self._held[held.client_id, held.group]
        del messages[held.receipt.place]
        self._count -= 1
        if not messages:
            del self._held[held.client_id, held.group]


def renew_for_ms(renewals: int) -> int:
    """Return for how long a message is made invisible after so many times."""
    return RENEW_FOR_MS[min(renewals, len(RENEW_FOR_MS) - 1)]
