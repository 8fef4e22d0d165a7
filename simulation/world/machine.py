"""The clock and the identity of a simulated process."""

from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.machine import Identity
from staticfire.simulation.world.chance import number_from, source_of_chance
from staticfire.simulation.world.loop import JumpingLoop

# 2026-01-01T00:00:00Z, when every simulated world starts.
EPOCH_MS = 1_767_225_600_000
# The range of Linux.
_PIDS = range(2, 4_194_304)


class SimulatedClock:
    """Virtual time. The wall clock can be wrong."""

    def __init__(self, loop: JumpingLoop, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        """How far this wall clock is ahead of virtual time."""
        self._loop = loop

    def uptime_ms(self) -> UptimeMs:
        return self._loop.uptime_ns // 1_000_000  # type: ignore[return-value]  # No call for a type: all ask often.

    def uptime_ns(self) -> int:
        return self._loop.uptime_ns

    def wall_ms(self) -> MessageMs:
        return MessageMs(EPOCH_MS + self._loop.uptime_ns // 1_000_000 + self.skew_ms)


def simulated_identity(seed: int, name: str, host: str, life: int) -> Identity:
    """Return the identity of a process, by its name and the number of its life. Its host name is its name."""
    return Identity(
        pid=_PIDS[number_from(seed, "pid", name, life) % len(_PIDS)],
        host_name=name,
        host_ip=host,
        random=source_of_chance(seed, "process", name, life),
    )
