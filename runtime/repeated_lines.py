"""Limits the lines about connections that are refused: a flood of them must fill neither the log nor the journal.

Each cause of each host is reported at once. What repeats within a second is counted, and reported at its end. Beyond
`CAUSES_MAX` causes of hosts in a second, only their number is reported.
"""

import asyncio
from collections.abc import Callable

CAUSES_MAX = 20
PERIOD_S = 1.0
OTHERS = "more causes or addresses than are listed"

Report = Callable[[str, str, str, int], None]
"""Takes the event, an address, the reason, and the number of connections that the line is about."""


class RepeatedLines:
    """What was reported, and what was counted, in the last second."""

    def __init__(self, report: Report) -> None:
        """`report` is called for each line."""
        self._report = report
        self._repeated: dict[tuple[str, str, str], tuple[str, int]] = {}
        """For each event, host and cause: the last address, and how many connections aren't reported yet."""
        self._others: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, event: str, address: str, reason: str) -> None:
        """Report a refused connection, or count it."""
        key = (event, address.rpartition(":")[0], reason)
        if key in self._repeated:
            self._repeated[key] = (address, self._repeated[key][1] + 1)
        elif len(self._repeated) < CAUSES_MAX:
            self._report(event, address, reason, 1)
            self._repeated[key] = (address, 0)
        else:
            self._others[event] = self._others.get(event, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)

    def _end_period(self) -> None:
        self._timer = None
        self.flush()
        if self._repeated:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)

    def flush(self) -> None:
        """Report what was counted. Causes that were repeated are counted on."""
        repeated, others = self._repeated, self._others
        self._repeated, self._others = {key: (last, 0) for key, (last, count) in repeated.items() if count}, {}
        for (event, _, reason), (last, count) in repeated.items():
            if count:
                self._report(event, last, reason, count)
        for event, count in others.items():
            self._report(event, "", OTHERS, count)

    def close(self) -> None:
        """Report what was counted, and stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.flush()
