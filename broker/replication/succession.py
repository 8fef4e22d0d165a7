"""A master's doubt whether it still is the master, and whether it may store messages.

- From the beginning of its lineage on, a master queries the nameserver every second which broker holds its id. A broker
  that took over while this one was dead or frozen has a newer epoch, and this one becomes its slave. Two brokers may
  have taken over in the same epoch, if neither knew of the other: then the one that did so later stays the master.
- A master that starts with an empty log does so, too: its disk may be a new one. If a slave has taken over, it becomes
  its slave; if a slave has messages, it accepts none until that one has taken over. It queries for a while: a
  nameserver that has just started doesn't know the others yet.
- A synchronous master for which no nameserver answers accepts nothing until one has, for the same reason. It waits ten
  seconds for the first answer of a nameserver that accepts connections: on a busy machine that of a new cluster may
  start later than its brokers.
- A master whose sends wait for slaves, and that lost the end of its log to a power cut, doesn't begin again: a slave
  has what was acknowledged, and takes over. Other masters begin another life of their epoch at the end that they have,
  and slaves remove what follows.
"""

from collections.abc import Callable

import msgspec

from staticfire.broker.replication.around import BrokerAround
from staticfire.broker.replication.epochs import newest
from staticfire.broker.replication.lineage import Lineage, new_life, waits_for_copies
from staticfire.broker.replication.master_fence import HANDING_OVER
from staticfire.broker.replication.role_change import role_change
from staticfire.broker.replication.successor import (
    find_successor,
    first_known_members,
    known_members,
    none_has_more,
    reason_to_wait,
)
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.replication import SLAVE
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.log import logger

log = logger("replication")

SUCCESSOR_MS = 1_000
# A nameserver that has just started knows all slaves after this time: they register each 30 s.
KNOWN_MS = 35_000
UNSURE = "unsure"


class Succession:
    """What a master finds out about its successor."""

    def __init__(self, around: BrokerAround, lineage: Callable[[], Lineage], keep: Callable[[Lineage], None]) -> None:
        """`keep` writes another lineage of this master. Raises: StorageError."""
        self._around = around
        self._state = around.tables.state
        self._store = around.tables.state.store
        self._lineage = lineage
        self._keep = keep
        self.waits_for_failover = False
        """Whether a slave must take over, because this master lost messages."""
        self._is_unsure = False
        """Whether no nameserver has answered yet, and the folder was empty or the end of the log may be lost."""
        self._unsure_until_ms = 0
        self._may_be_replaced = False
        """This master has no lineage, because its disk is new, and another broker may have become the master."""
        self._new_until_ms = 0
        """Until then, such a broker may still register with a nameserver that has just started."""

    @property
    def may_lack_messages(self) -> bool:
        """Whether a slave has, or may have, messages that this master lost."""
        return self._is_unsure or self.waits_for_failover

    async def is_replaced(self) -> bool:
        """Return whether this broker must not register, because its role is another's. Then refuse messages."""
        lineage, settings, around = self._lineage(), self._state.settings, self._around
        self._may_be_replaced = bool(lineage.set_id) or not self._store.max_position
        if not self._may_be_replaced:
            return False
        if not lineage.set_id:
            self._new_until_ms = self._state.machine.clock.uptime_ms() + KNOWN_MS
        self._is_unsure = not lineage.set_id or waits_for_copies(settings)
        if self._is_unsure:
            if lineage.set_id or waits_for_copies(settings):
                self._store.refuse(StorageError("no nameserver says which slaves may have more: send again"), UNSURE)
            self._is_unsure = await first_known_members(settings, around.registration, around.pool) is None
            if not self._is_unsure:
                self._store.refuse(None, UNSURE)
        found = await find_successor(settings, lineage, around.registration, around.pool)
        self._may_be_replaced = found is not None
        if found is not None:
            self._store.refuse(StorageError(f"{found.address} has become the master: send to it"), HANDING_OVER)
            return True
        if await self._must_wait():
            return True
        if lineage.set_id and not waits_for_copies(settings):
            self._keep(new_life(lineage, self._store.max_position))
        return False

    async def _must_wait(self) -> bool:
        """Return whether a slave must take over because this master lost messages. Then refuse further ones."""
        around, end = self._around, self._store.max_position
        reason = await reason_to_wait(self._state.settings, self._lineage(), end, around.registration, around.pool)
        self.waits_for_failover = reason is not None
        if reason is not None:
            self._may_be_replaced = True
            self._store.refuse(reason, HANDING_OVER)
        return reason is not None

    async def loop(self) -> None:
        """Become a slave if another broker has become the master of this set."""
        around = self._around
        while True:
            if self._is_unsure:
                await self._ask_again()
            settings = self._state.settings
            if self.waits_for_failover:
                end = self._store.max_position
                if await none_has_more(settings, self._lineage(), end, around.registration, around.pool):
                    lineage, reason = new_life(self._lineage(), end), "no slave has more of the log any more"
                    return around.change_role(role_change(settings.broker_role, MASTER_ID, lineage, reason), None)
            is_new = self._is_unsure or self._state.machine.clock.uptime_ms() < self._new_until_ms
            if self._lineage().set_id or self._may_be_replaced or is_new:
                found = await find_successor(settings, self._lineage(), around.registration, around.pool)
                if found is not None:
                    log.warning("master_replaced", by=found.address, epoch=newest(found.epochs))
                    lineage = msgspec.structs.replace(self._lineage(), least_epoch=newest(found.epochs))
                    reason = f"{found.address} has become the master"
                    around.change_role(role_change(SLAVE, found.broker_id, lineage, reason), None)
                    return
            await around.pause(SUCCESSOR_MS)

    async def _ask_again(self) -> None:
        """Ask whether a slave has more of the log: no nameserver answered when this master started."""
        around, settings = self._around, self._state.settings
        members = await known_members(settings, around.registration, around.pool)
        if members is None:
            return
        uptime_ms = self._state.machine.clock.uptime_ms()
        self._unsure_until_ms = self._unsure_until_ms or uptime_ms + KNOWN_MS
        may_have_lost = bool(self._lineage().set_id) or not self._store.max_position
        has_waited = may_have_lost and await self._must_wait()
        is_known = bool(self._lineage().set_id) and any(broker_id != MASTER_ID for broker_id in members)
        self._is_unsure = not has_waited and not is_known and uptime_ms < self._unsure_until_ms
        if not self._is_unsure:
            self._store.refuse(None, UNSURE)
