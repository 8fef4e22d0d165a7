"""A server, as far as rules are concerned with it."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from staticfire.protocol.requests.faults import FaultRule
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.machine import Clock


class FaultSite(NamedTuple):
    """One broker or nameserver."""

    name: str
    clock: Clock
    message_ms: Callable[[], MessageMs]
    dispatcher: Dispatcher
    connections: Callable[[], Iterable[Connection]]
    """Those that are open."""
    waiting: Callable[[], Iterable[Call]]
    """Requests that have come and wait for their answers."""
    switches: Mapping[str, Callable[[bool], None]]
    """By action: what makes the whole server so, or not any more."""
    unseen: Callable[[FaultRule], list[str]]
    """Names what a rule speaks of and the server hasn't met: topic, group, client."""
    brokers: Callable[[Connection], dict[str, str]]
    """Where brokers are, by name, for whom a connection leads to; nothing where that isn't known."""
