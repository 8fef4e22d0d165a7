"""Failover by itself: when a master is gone, the slave with most of the log takes over.

RocketMQ: the controller. A master is gone if the nameserver has no route to it, which is so a moment after its
connection breaks; or if it doesn't answer for SILENT_MS, because it is frozen or unreachable. A failover by a person is
left alone: while a broker changes its role, it answers late, and then as a master.
"""

from collections.abc import Awaitable, Callable

from staticfire.client.admin.replicas import MASTER_ID, SLAVE, Replica, ReplicaAdmin
from staticfire.protocol.errors import BrokerAnswer, ClientError, NetworkError, ProtocolError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("replication")

POLL_MS = 100
# A master that restarts, or hands over, is without a route for less than this.
GONE_MS = 300
SILENT_MS = 10_000


class FailoverWatch:
    """Watches the masters of one cluster."""

    def __init__(
        self, admin: ReplicaAdmin, uptime_ms: Callable[[], UptimeMs], pause: Callable[[int], Awaitable[None]]
    ) -> None:
        self._admin = admin
        self._uptime_ms = uptime_ms
        self._pause = pause
        self._gone_since: dict[str, UptimeMs] = {}

    async def loop(self) -> None:
        """Let a slave take over whenever a master is gone."""
        while True:
            try:
                await self.look()
            except (NetworkError, ClientError, BrokerAnswer, ProtocolError) as error:
                log.info("failover_not_possible", reason=str(error))
            await self._pause(POLL_MS)

    async def look(self) -> None:
        """Look once. Raises: what a failover raises."""
        replicas = await self._admin.all()
        for name in sorted({one.broker_name for one in replicas}):
            members = [one for one in replicas if one.broker_name == name]
            if self._is_due(name, members):
                del self._gone_since[name]
                done = await self._admin.failover(name, accepts_loss=True)
                log.warning("failed_over", broker=name, master=done.master, epoch=done.epoch)

    def _is_due(self, name: str, members: list[Replica]) -> bool:
        """Return whether a slave must take over now."""
        slaves = [one for one in members if one.broker_id != MASTER_ID and one.state is not None]
        has_copies = any(one.state is not None and one.state.set_id for one in slaves)
        has_other_master = any(one.state is not None and one.state.role != SLAVE for one in members)
        if not has_copies or has_other_master:
            self._gone_since.pop(name, None)
            return False
        is_silent = any(one.broker_id == MASTER_ID for one in members)
        since_ms = self._gone_since.setdefault(name, self._uptime_ms())
        return self._uptime_ms() - since_ms >= (SILENT_MS if is_silent else GONE_MS)
