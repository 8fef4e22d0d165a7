"""When a program that doesn't end has had its time to consume what is left."""

import math


class SettlingTime:
    """How long a run waits for consumers after its limit. It begins again whenever less is left than before."""

    def __init__(self, settle_ms: float) -> None:
        self._settle_ms = settle_ms
        self._least = math.inf
        self._until_ms = 0.0

    def is_over(self, left: int, now_ms: float) -> bool:
        """Return whether to wait no longer: nothing is left, or not less than one settling time ago."""
        if left < self._least:
            self._least, self._until_ms = left, now_ms + self._settle_ms
        return not left or now_ms >= self._until_ms
