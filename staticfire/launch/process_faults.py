"""Fault rules that kill or suspend processes of a cluster, until the rule is removed or its lifetime ends.

Removing a rule undoes it: a suspended process is resumed, a killed one is restarted with the same port and folder.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticfire.client.admin.faults import FaultView
from staticfire.faults import actions
from staticfire.protocol.durations import format_duration
from staticfire.protocol.errors import ClientError, StaticfireError, UsageError
from staticfire.protocol.requests.faults import FaultRule
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.signals import StopAsked

if TYPE_CHECKING:
    from staticfire.launch.processes import ProcessCluster

log = logger("faults")


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
        self._cluster = cluster
        self._faults: dict[int, ProcessFault] = {}
        self._last_number = 0
        machine = live_machine()
        self._clock, self._pid = machine.clock, machine.identity.pid

    @property
    def next_number(self) -> int:
        """A number that no rule here has had yet."""
        return self._last_number + 1

    def add(self, rule: FaultRule, names: Sequence[str]) -> FaultView:
        """Apply a rule to all these processes, or to none.

        Raises: UsageError (no such process), ClientError (a process doesn't run).
        """
        self._check(names)
        cluster = self._cluster
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
        cluster = self._cluster
        unknown = [name for name in names if name not in cluster.names]
        if unknown:
            raise UsageError(f"there is no {unknown[0]} in this cluster; it has {', '.join(cluster.names)}")
        dead = [name for name in names if name not in cluster.pids]
        if dead:
            raise ClientError(f"{dead[0]} isn't running")

    def views(self) -> list[FaultView]:
        """Return all rules."""
        uptime_ms = self._clock.uptime_ms()
        return [fault.view(uptime_ms) for fault in self._faults.values()]

    def remove(self, number: int) -> bool:
        """Undo a rule. Return False if there is none with this number.

        Raises: ChildFailed, UsageError, StopAsked.
        """
        fault = self._faults.pop(number, None)
        if fault is None:
            return False
        if fault.timer is not None:
            fault.timer.cancel()
        for name in fault.names:
            self._undo(fault.rule.action, name)
        log.warning("fault_removed", number=number, rule=fault.rule.action, processes=fault.names)
        return True

    def clear(self) -> int:
        """Undo all rules; return how many."""
        return sum(self.remove(number) for number in list(self._faults))

    def _undo(self, action: str, name: str) -> None:
        if any(fault.rule.action == action and name in fault.names for fault in self._faults.values()):
            return  # Another rule keeps the process in this state.
        is_running = name in self._cluster.pids
        if action == actions.FREEZE and is_running:
            self._cluster.thaw(name)
        elif action == actions.KILL and not is_running:
            self._cluster.restart(name)
            if any(fault.rule.action == actions.FREEZE and name in fault.names for fault in self._faults.values()):
                self._cluster.freeze(name)  # A rule that suspends this process is still there.

    def _expire(self, number: int) -> None:
        """Undo a rule whose lifetime is over. This is a timer without a caller, so errors are logged."""
        try:
            self.remove(number)
        except StopAsked as stop:
            # The code that starts processes received a signal that was meant for this whole process. Send it again.
            os.kill(self._pid, stop.number)
        except StaticfireError as error:
            log.error("fault_not_undone", number=number, error=str(error))
