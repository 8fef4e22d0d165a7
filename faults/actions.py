"""The possible faults, named as in Toxiproxy if it has them; its latency is `delay`, its reset_peer is `close`."""

from typing import NamedTuple

REQUEST, ANSWER, SERVER, EVERYTHING = "request", "answer", "server", "everything"
DIRECTIONS = (REQUEST, ANSWER, SERVER)
"""Incoming requests, responses, and requests that a server sends to its clients."""

DELAY, DROP, REFUSE, CLOSE, CORRUPT = "delay", "drop", "answer with", "close", "corrupt"
BANDWIDTH, DUPLICATE, SKEW = "bandwidth", "duplicate", "skew"
PARTITION = "partition"
READ_ONLY, DISK_FULL = "read-only", "disk-full"
FREEZE, KILL = "freeze", "kill"
NAMESERVER = "nameserver"
"""The name of the nameserver, used like the name of a broker."""


class Action(NamedTuple):
    """The directions of a fault, the default one first. Empty: the fault concerns a whole server."""

    directions: tuple[str, ...] = ()
    is_chancy: bool = True
    """Whether probability, count and message time can be combined with it."""
    is_of_process: bool = False
    """Whether the launcher of the processes performs it, and not the server itself."""


ACTIONS = {
    DELAY: Action(DIRECTIONS),
    DROP: Action(DIRECTIONS),
    REFUSE: Action((REQUEST, ANSWER)),
    CLOSE: Action(DIRECTIONS),
    CORRUPT: Action((ANSWER, SERVER)),
    BANDWIDTH: Action((ANSWER, SERVER)),
    DUPLICATE: Action(DIRECTIONS),
    SKEW: Action((REQUEST,)),
    PARTITION: Action((EVERYTHING,), is_chancy=False),
    READ_ONLY: Action(is_chancy=False),
    DISK_FULL: Action(is_chancy=False),
    FREEZE: Action(is_chancy=False, is_of_process=True),
    KILL: Action(is_chancy=False, is_of_process=True),
}
"""The actions by name."""
SWITCHES = (READ_ONLY, DISK_FULL)
"""The actions that change the state of a whole broker, on or off."""
