"""The background scrub: at a bounded rate a worker reads the whole log again and again, and tells what has rotted.

Before that it looks once whether the files of all queues are whole: a start looks at the first few hundred only.
"""

from collections.abc import Awaitable, Callable

from staticfire.broker.store.scrub import SCRUB_BYTES
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock, Workers

log = logger("broker")

FIRST_PAUSE_MS = 5_000
# A start has something else to do.
ROUND_PAUSE_MS = 600_000
# A round of a small log takes no time, but a processor that sleeps; what was read minutes ago has hardly rotted.
BUSY_PERCENT_MAX = 2
# Of the time: small messages take longer to check than their bytes say, and everything on a machine that is busy.
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
        """Loop: look at a part, rest. `bytes_per_second` at most; with 0 there is no scrub."""
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
                # A file that retention has removed meanwhile, or a disk that gives errors of its own.
                pause_ms = ROUND_PAUSE_MS
                if trouble != str(error):
                    trouble = str(error)
                    log.warning("scrub_interrupted", error=trouble)
            await self._pause(pause_ms)

    async def _look_at_ends(self) -> None:
        """Find queues whose files lack something, before somebody asks for one of them."""
        try:
            for look in self._store.looks_at_ends():
                if not await self._workers.run(look):
                    self._store.mend_short_queues()
                    return
                await self._pause(LOOK_PAUSE_MS)
        except (OSError, StorageError) as error:
            log.warning("queues_not_checked", error=str(error))


def pause_after_step_ms(started_ms: UptimeMs, ended_ms: UptimeMs, bytes_per_second: int) -> int:
    """Return how long to rest, so that neither so many bytes nor so much of the time is exceeded."""
    for_time = (ended_ms - started_ms) * (100 - BUSY_PERCENT_MAX) // BUSY_PERCENT_MAX
    return max(1, SCRUB_BYTES * 1000 // bytes_per_second, min(for_time, BUSY_PAUSE_MS_MAX))
