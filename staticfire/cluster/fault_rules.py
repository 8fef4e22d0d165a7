"""All fault rules of one cluster: those of its servers and those of its processes. For code that has connections."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from staticfire.client.admin.faults import FaultAdmin, FaultView, FaultViews, numbered
from staticfire.faults.actions import ACTIONS
from staticfire.faults.parsing import parse_fault
from staticfire.launch.brokers_back import brokers_back
from staticfire.protocol.errors import NetworkError, StaticfireError, UsageError
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from staticfire.launch.process_faults import ProcessFaults

IN_A_THREAD = "this cluster runs in a thread, which can't be killed or frozen; use Cluster(isolation='process')"


class ClusterFaults:
    """All fault rules of a cluster: those that servers apply, and those that act on processes."""

    def __init__(
        self,
        pool: ConnectionPool,
        namesrv: str,
        processes: "ProcessFaults | None" = None,
        brokers: Mapping[str, str] | None = None,
    ) -> None:
        """`processes`: None if the cluster has none. `brokers`: addresses by name, if the caller has them already."""
        self._pool = pool
        self._rules = FaultAdmin(pool, namesrv, brokers)
        self._processes = processes

    async def add(self, words: Mapping[str, object]) -> FaultView:
        """Inject a fault from now on. Raises: UsageError, ClientError, BrokerAnswer, NetworkError."""
        wanted, processes = parse_fault(words), self._processes
        if not ACTIONS[wanted.rule.action].is_of_process:
            return await self._rules.add(wanted, 1 if processes is None else processes.next_number)
        if processes is None:
            raise UsageError(IN_A_THREAD)
        try:
            number = await self._rules.take_number(processes.next_number)
        except NetworkError:
            number = processes.next_number  # A fault affects the nameserver already, so only this count is available.
        return processes.add(numbered(wanted.rule, number), wanted.places)

    async def preview(self, words: Mapping[str, object]) -> FaultView:
        """Return a fault as `add` would inject it, without a number. Raises: as `add`."""
        wanted = parse_fault(words)
        if not ACTIONS[wanted.rule.action].is_of_process:
            return await self._rules.preview(wanted)
        if self._processes is None:
            raise UsageError(IN_A_THREAD)
        return self._processes.preview(wanted.rule, wanted.places)

    async def all(self) -> FaultViews:
        """Return all rules, with their hits. Raises: NetworkError (no server responds, and no rule is the cause)."""
        of_processes = [] if self._processes is None else self._processes.views()
        try:
            views = await self._rules.views()
        except NetworkError as error:
            if not of_processes:
                raise
            views = FaultViews([], {"nameserver": str(error)})
        return FaultViews(sorted([*views, *of_processes], key=lambda view: view.number), views.silent)

    async def remove(self, number: int) -> None:
        """Remove a rule, which ends its fault.

        Raises: UsageError (there is no such rule), NetworkError, FaultNotUndone (a process couldn't be restarted).
        """
        if (processes := self._processes) is not None:
            names = processes.names(number)
            if processes.remove(number):
                await brokers_back(self._pool, processes.cluster, names)
                return
        if number < 1 or not any((await self._rules.remove(number)).values()):
            raise UsageError(f"there is no fault rule {number}")

    async def clear(self) -> int:
        """Remove all rules but those that stay; return how many were removed.

        Raises: NetworkError, FaultNotUndone (a process couldn't be restarted; all other rules are removed).
        """
        undone, processes = 0, self._processes
        if processes is not None:
            names = processes.names()
            try:
                undone = processes.clear()
            except StaticfireError:
                with suppress(NetworkError):  # No server responds. The reason may be the process that wasn't restarted.
                    await self._rules.remove(0)
                raise
            await brokers_back(self._pool, processes.cluster, names)
        return undone + await self._rules.clear()
