"""Whether a request waited, on a machine that may stop all of its processes for seconds."""

import time
from threading import Event, Thread
from typing import Self

TICK_S = 0.02
STALLED_S = 0.2


class Stopwatch:
    """Measures the `with` block, and whether this process itself had to wait for a processor in that time."""

    def __enter__(self) -> Self:
        self._ended = Event()
        self._gap_max_s = 0.0
        self._ticking = Thread(target=self._tick, daemon=True)
        self._begin_s = time.monotonic()
        self._ticking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._elapsed_s = time.monotonic() - self._begin_s
        self._ended.set()
        self._ticking.join()

    def waited(self, at_least_s: float) -> bool | None:
        """Return whether the block took that long; None if that is unknown, since the process was stopped meanwhile."""
        return None if self._gap_max_s > STALLED_S else self._elapsed_s > at_least_s

    def _tick(self) -> None:
        before_s = self._begin_s
        has_ended = False
        while not has_ended:
            has_ended = self._ended.wait(TICK_S)
            now_s = time.monotonic()
            self._gap_max_s = max(self._gap_max_s, now_s - before_s)
            before_s = now_s
