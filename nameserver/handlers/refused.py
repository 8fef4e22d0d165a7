"""Which connections were closed because of TLS. Specific to staticfire: a client that is refused here knows no broker.

Behaviour: the newest events are returned as those of a broker's journal are; only `tlsRefused` is noted. Other kinds of
events and requests aren't: the response has none of them.
"""

from collections import deque

from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.journal import TLS_REFUSED, GetJournal, JournalAnswer, JournalPage, JournalRecord
from staticfire.runtime.dispatcher import Call, Handler

NAMESERVER = "nameserver"
# How many events are kept.
REFUSED_MAX = 200


class RefusedConnections:
    """Notes them, and handles requests for them."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state
        self._events: deque[JournalRecord] = deque(maxlen=REFUSED_MAX)
        self._noted = 0

    def note(self, address: str, reason: str) -> None:
        """Note one."""
        self._noted += 1
        now_ms = self._state.machine.clock.wall_ms()
        self._events.append(
            JournalRecord(self._noted, NAMESERVER, TLS_REFUSED, now_ms, now_ms, address, details={"reason": reason})
        )

    def by_code(self) -> dict[RequestCode, Handler]:
        return {RequestCode.GET_JOURNAL: self.get}

    def get(self, call: Call) -> Answer:
        request: GetJournal = call.request
        is_wanted = not request.requests and TLS_REFUSED in (request.kinds or TLS_REFUSED).split(",")
        records = [one for one in self._events if is_wanted and one.number >= request.first_number]
        return JournalAnswer(body=JournalPage(records, self._noted + 1))
