"""The delayed frames of one direction of a connection, in their order. Pure: times are passed in.

Each frame leaves when its delay is over, but never before the frames ahead of it. When a rule ends, its part of each
delay ends too: what is late then leaves at once, and everything else as if the rule had never delayed it.
"""

from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from staticfire.faults.book import Ruling


class DelayedFrame(msgspec.Struct, gc=False):
    """A frame that waits."""

    began_s: float
    ruling: Ruling
    leave: Callable[[], object]
    due_s: float = 0.0


class DelayedFrames:
    """Frames that wait in one direction."""

    def __init__(self) -> None:
        self._frames: deque[DelayedFrame] = deque()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def due_s(self) -> float | None:
        """When the first frame leaves; None: no frame waits."""
        return self._frames[0].due_s if self._frames else None

    def add(self, now_s: float, ruling: Ruling, leave: Callable[[], object]) -> None:
        """Add a frame behind the others. `leave` is called when it leaves."""
        frame = DelayedFrame(now_s, ruling, leave)
        self._plan(frame, self._frames[-1].due_s if self._frames else now_s)
        self._frames.append(frame)

    def take_due(self, until_s: float) -> DelayedFrame | None:
        """Remove and return the first frame if it leaves until then."""
        if self._frames and self._frames[0].due_s <= until_s:
            return self._frames.popleft()
        return None

    def release(self, numbers: Iterable[int] | None) -> None:
        """End the delays by the rules with these numbers; None: by all rules. Then frames may be due."""
        ahead_s = 0.0
        for frame in self._frames:
            frame.ruling.release(numbers)
            self._plan(frame, ahead_s)
            ahead_s = frame.due_s

    @staticmethod
    def _plan(frame: DelayedFrame, ahead_s: float) -> None:
        frame.due_s = max(frame.began_s + frame.ruling.delay_ms / 1_000, ahead_s)
