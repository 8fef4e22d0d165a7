"""The parts of a server that fault rules need."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from staticfire.faults.matching import Subject
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
    """Returns the open connections."""
    waiting: Callable[[], Iterable[Call]]
    """Returns the requests that were received and wait for their responses."""
    switches: Mapping[str, Callable[[bool], None]]
    """By action, a function that turns this state of the whole server on or off."""
    unseen: Callable[[FaultRule], list[str]]
    """Returns which of a rule's topic, queue, group and client the server hasn't seen yet."""
    note_hit: Callable[[FaultRule, str, Subject], None]
    """Notes in the journal that a rule has hit a request, or in that direction something else of it."""
    brokers: Callable[[Connection], dict[str, str]]
    """Returns the addresses of brokers, by name, for the peer of a connection; empty if unknown."""
