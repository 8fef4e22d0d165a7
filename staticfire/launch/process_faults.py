"""Fault rules that kill or suspend processes of a cluster, until the rule is removed or its lifetime ends.

Removing a rule undoes it: a suspended process is resumed, a killed one is restarted with the same port and folder. The
processes of a rule fail independently: those that can't be restarted keep their rule, which can be removed again.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticfire.client.admin.faults import FaultView
from staticfire.faults import actions
from staticfire.protocol.durations import format_duration
from staticfire.protocol.errors import ClientError, StaticfireError, UsageError
from staticfire.protocol.requests.faults import FaultRule
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.signals import StopRequested

if TYPE_CHECKING:
    from staticfire.launch.processes import ProcessCluster

log = logger("faults")


class FaultNotUndone(StaticfireError):
    """Processes of a rule couldn't be restarted. The rule is kept for them, and can be removed again."""


class ProcessFault:
    """One rule and the processes that it affects."""

    def __init__(self, rule: FaultRule, names: Sequence[str]) -> None:
        self.rule = rule
        self.names = list(names)
        self.ends_ms = -1
        self.timer: asyncio.TimerHandle | None = None

    def view(self, uptime_ms: int) -> FaultView:
        """Return the rule as it is shown to users."""
        lifetime = f", for {format_duration(self.rule.lifetime_ms)}" if self.rule.lifetime_ms else ""
        left_ms = -1 if self.ends_ms < 0 else max(0, self.ends_ms - uptime_ms)
        return FaultView(
            self.rule.number, f"the process: {self.rule.action}{lifetime}", dict.fromkeys(self.names, 1), left_ms
        )


class ProcessFaults:
    """The fault rules about the processes of one cluster."""

    def __init__(self, cluster: "ProcessCluster") -> None:
        self.cluster = cluster
        self._faults: dict[int, ProcessFault] = {}
        self._last_number = 0
        self._clock = live_machine().clock

    @property
    def next_number(self) -> int:
        """A number that no rule here has had yet."""
        return self._last_number + 1

    def add(self, rule: FaultRule, names: Sequence[str]) -> FaultView:
        """Apply a rule to all these processes, or to none.

        Raises: UsageError (no such process), ClientError (a process doesn't run).
        """
        self._check(names)
        cluster = self.cluster
        for name in names:
            (cluster.freeze if rule.action == actions.FREEZE else cluster.kill)(name)
        fault = self._faults[rule.number] = ProcessFault(rule, names)
        self._last_number = max(self._last_number, rule.number)
        if rule.lifetime_ms:
            fault.ends_ms = self._clock.uptime_ms() + rule.lifetime_ms
            fault.timer = asyncio.get_running_loop().call_at(fault.ends_ms / 1_000, self._expire, rule.number)
        log.warning("fault_added", number=rule.number, rule=rule.action, processes=fault.names)
        return fault.view(self._clock.uptime_ms())

    def preview(self, rule: FaultRule, names: Sequence[str]) -> FaultView:
        """Return a rule as `add` would apply it. Raises: as `add`."""
        self._check(names)
        return ProcessFault(rule, names).view(self._clock.uptime_ms())

    def forget(self) -> None:
        """Remove all rules and change no process: the caller lets all of them run."""
        for fault in self._faults.values():
            if fault.timer is not None:
                fault.timer.cancel()
        self._faults.clear()

    def _check(self, names: Sequence[str]) -> None:
        """Check that these processes run. Raises: UsageError, ClientError."""
        cluster = self.cluster
        unknown = [name for name in names if name not in cluster.names]
        if unknown:
            raise UsageError(f"there is no {unknown[0]} in this cluster; it has {', '.join(cluster.names)}")
        dead = [name for name in names if name not in cluster.pids]
        if dead:
            raise ClientError(f"{dead[0]} isn't running")

    def names(self, number: int = 0) -> list[str]:
        """Return the names of the processes of a rule, or of all rules with 0."""
        return [name for one, fault in self._faults.items() if number in (0, one) for name in fault.names]

    def views(self) -> list[FaultView]:
        """Return all rules."""
        uptime_ms = self._clock.uptime_ms()
        return [fault.view(uptime_ms) for fault in self._faults.values()]

    def remove(self, number: int) -> bool:
        """Undo a rule. Return False if there is none with this number.

        Raises: FaultNotUndone (the rule is kept, for the processes that couldn't be restarted).
        """
        fault = self._faults.get(number)
        if fault is None:
            return False
        if fault.timer is not None:
            fault.timer.cancel()
        undone, problems = list(fault.names), []
        for name in undone:
            try:
                self._undo(fault, name)
            except (StaticfireError, OSError) as error:
                problems.append(f"{name}: {error}")
            else:
                fault.names.remove(name)
        if problems:
            raise FaultNotUndone(f"rule {number} isn't undone: {'; '.join(problems)}; then remove the rule again")
        del self._faults[number]
        log.warning("fault_removed", number=number, rule=fault.rule.action, processes=undone)
        return True

    def clear(self) -> int:
        """Undo all rules; return how many.

        Suspended processes are resumed first: a broker does not start while the nameserver is suspended.

        Raises: FaultNotUndone (the others are undone nevertheless).
        """
        removed, problems = 0, []
        for number in sorted(self._faults, key=lambda number: self._faults[number].rule.action != actions.FREEZE):
            try:
                removed += self.remove(number)
            except FaultNotUndone as error:
                problems.append(str(error))
        if problems:
            raise FaultNotUndone("; ".join(problems))
        return removed

    def _undo(self, fault: ProcessFault, name: str) -> None:
        others = {one.rule.action for one in self._faults.values() if one is not fault and name in one.names}
        if fault.rule.action in others:
            return  # Another rule keeps the process in this state.
        is_running = name in self.cluster.pids
        if fault.rule.action == actions.FREEZE and is_running:
            self.cluster.thaw(name)
        elif fault.rule.action == actions.KILL and not is_running:
            self._restart(name)
            if actions.FREEZE in others:
                self.cluster.freeze(name)  # A rule that suspends this process is still there.

    def _restart(self, name: str) -> None:
        try:
            self.cluster.restart(name)
        except StopRequested:
            # The process has been started. A signal ends only the wait for it, and the event loop handles it next:
            # `up` ends, and `run` passes it on to its command, which may continue and then needs the process.
            log.warning("process_not_awaited", process=name)

    def _expire(self, number: int) -> None:
        """Undo a rule whose lifetime is over. This is a timer without a caller, so errors are logged."""
        try:
            self.remove(number)
        except StaticfireError as error:
            log.error("fault_not_undone", number=number, error=str(error))
