"""The request handlers of a nameserver, one module per family of requests.

- `routes.py`: where topics are; `brokers.py`: brokers register, report that they live, and unregister
- `topics.py`, `kv.py`, `config.py`: lists of topics, key-value configuration, settings
- `controller.py`: masters, slaves and elections
- `clock.py`, `faults.py`, `refused.py`: message time, injected faults, connections that were closed because of TLS; all
  of them are staticfire's own

Not implemented: the registration body of brokers older than 3.0.11 (2013), compressed registrations, and what brokers
request of a controller.
"""

from collections.abc import Callable, Iterable

from staticfire.nameserver.handlers.brokers import BrokerHandlers
from staticfire.nameserver.handlers.clock import ClockHandlers
from staticfire.nameserver.handlers.config import NameserverConfigHandlers
from staticfire.nameserver.handlers.controller import ControllerHandlers
from staticfire.nameserver.handlers.faults import NameserverFaultHandlers
from staticfire.nameserver.handlers.kv import KVHandlers
from staticfire.nameserver.handlers.refused import RefusedConnections
from staticfire.nameserver.handlers.routes import RouteHandlers
from staticfire.nameserver.handlers.topics import NameserverTopicHandlers
from staticfire.nameserver.state import NameserverState
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher

FAMILIES = (BrokerHandlers, ClockHandlers, NameserverConfigHandlers, KVHandlers, RouteHandlers, NameserverTopicHandlers)


def add_handlers(
    dispatcher: Dispatcher,
    state: NameserverState,
    connections: Callable[[], Iterable[Connection]],
    refused: RefusedConnections,
) -> None:
    """Register all handlers of a nameserver. `connections`: returns the open connections."""
    faults = NameserverFaultHandlers(state, dispatcher, connections)
    for family in (*(family(state) for family in FAMILIES), faults, refused):
        for code, handler in family.by_code().items():
            dispatcher.handle(code, handler)
    for code, in_task in ControllerHandlers(state).by_code().items():
        dispatcher.handle(code, in_task)
