"""The background scrub: a worker reads the whole log repeatedly, at a limited rate, and reports damage.

Before that, it checks once whether the files of all queues are complete. A start checks only the first few hundred.
"""

from collections.abc import Awaitable, Callable

from staticfire.broker.store.scrub import SCRUB_BYTES
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock, Workers

log = logger("broker")

# No scrub during the start, which needs the time for other work.
FIRST_PAUSE_MS = 5_000
# A round of a small log is quick, but shouldn't keep waking an idle processor. Data that was read minutes ago is hardly
# damaged already.
ROUND_PAUSE_MS = 600_000
# The largest share of the time. Small messages take longer to check than their size suggests, and a busy machine slows
# everything down.
BUSY_PERCENT_MAX = 2
BUSY_PAUSE_MS_MAX = 5_000
LOOK_PAUSE_MS = 20


class Scrubbing:
    """Scrubs one store while its broker runs."""

    def __init__(
        self, store: MessageStore, clock: Clock, workers: Workers, pause: Callable[[int], Awaitable[None]]
    ) -> None:
        self._store = store
        self._clock = clock
        self._workers = workers
        self._pause = pause

    async def loop(self, bytes_per_second: int) -> None:
        """Check a part, pause, and repeat, at most at `bytes_per_second`. With 0 there is no scrub."""
        if bytes_per_second <= 0:
            return
        await self._pause(FIRST_PAUSE_MS)
        await self._look_at_ends()
        scrub, uptime_ms = self._store.scrub, self._clock.uptime_ms
        trouble = ""
        while True:
            started_ms = uptime_ms()
            try:
                step = scrub.step()
                if step is None:
                    pause_ms = ROUND_PAUSE_MS
                else:
                    scrub.looked(await self._workers.run(step))
                    pause_ms = pause_after_step_ms(started_ms, uptime_ms(), bytes_per_second)
            except OSError as error:
                # Retention may have removed the file meanwhile, or the disk may be faulty.
                pause_ms = ROUND_PAUSE_MS
                if trouble != str(error):
                    trouble = str(error)
                    log.warning("scrub_interrupted", error=trouble)
            await self._pause(pause_ms)

    async def _look_at_ends(self) -> None:
        """Find queues with incomplete files before they are used."""
        try:
            for look in self._store.looks_at_ends():
                if not await self._workers.run(look):
                    self._store.mend_short_queues()
                    return
                await self._pause(LOOK_PAUSE_MS)
        except (OSError, StorageError) as error:
            log.warning("queues_not_checked", error=str(error))


def pause_after_step_ms(started_ms: UptimeMs, ended_ms: UptimeMs, bytes_per_second: int) -> int:
    """Return the pause that keeps both the byte rate and the share of the time within their limits."""
    for_time = (ended_ms - started_ms) * (100 - BUSY_PERCENT_MAX) // BUSY_PERCENT_MAX
    return max(1, SCRUB_BYTES * 1000 // bytes_per_second, min(for_time, BUSY_PAUSE_MS_MAX))
