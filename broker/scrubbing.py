"""The background scrub: at a bounded rate a worker reads the whole log again and again, and tells what has rotted."""

from collections.abc import Awaitable, Callable

from staticfire.broker.store.scrub import SCRUB_BYTES
from staticfire.broker.store.store import MessageStore
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Workers

log = logger("broker")

FIRST_PAUSE_MS = 5_000
# A start has something else to do.
ROUND_PAUSE_MS = 60_000
# A round of a small log takes no time, and once a minute is enough.


class Scrubbing:
    """Scrubs one store while its broker runs."""

    def __init__(self, store: MessageStore, workers: Workers, pause: Callable[[int], Awaitable[None]]) -> None:
        self._store = store
        self._workers = workers
        self._pause = pause

    async def loop(self, bytes_per_second: int) -> None:
        """Loop: look at a part, rest. `bytes_per_second` at most; with 0 there is no scrub."""
        if bytes_per_second <= 0:
            return
        await self._pause(FIRST_PAUSE_MS)
        scrub = self._store.scrub
        trouble = ""
        while True:
            pause_ms = SCRUB_BYTES * 1000 // bytes_per_second
            try:
                step = scrub.step()
                if step is None:
                    pause_ms = ROUND_PAUSE_MS
                else:
                    scrub.looked(await self._workers.run(step))
            except OSError as error:
                # A file that retention has removed meanwhile, or a disk that gives errors of its own.
                pause_ms = ROUND_PAUSE_MS
                if trouble != str(error):
                    trouble = str(error)
                    log.warning("scrub_interrupted", error=trouble)
            await self._pause(max(1, pause_ms))
