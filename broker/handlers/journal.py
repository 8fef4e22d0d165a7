"""Read the journal of this broker. Specific to staticfire.

Behaviour
- The response contains records from a given number on, oldest first, as many as fit. It also contains the number from
  which to continue, and how many records were dropped.
- A broker that keeps no journal, or records no requests, refuses and names the setting that turns it on.
"""

from typing import TYPE_CHECKING

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.journal import GetJournal, JournalAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher

if TYPE_CHECKING:
    from staticfire.broker.journal.logs import Journals

NO_JOURNAL = "this broker keeps no journal: start it with journalEnable=true"
NO_REQUESTS = "this broker records no requests: start it with recordRequests=true"


class JournalHandlers:
    """Handles requests for the journal."""

    def __init__(self, journals: "Journals | None") -> None:
        """`journals`: None if the broker keeps none."""
        self._journals = journals

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.GET_JOURNAL, self.read)

    async def read(self, call: Call) -> Answer:
        """Return a part of the journal, or of the recorded requests."""
        request: GetJournal = call.request
        journals = self._journals
        if journals is None or (journals.tap if request.requests else journals.events) is None:
            raise BrokerAnswer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, NO_REQUESTS if request.requests else NO_JOURNAL)
        return JournalAnswer(body=await journals.page(request))
