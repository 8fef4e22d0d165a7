"""What can go wrong. Toxiproxy's words where it has one: its latency is `delay`, its reset_peer is `close`."""

from typing import NamedTuple

REQUEST, ANSWER, SERVER, EVERYTHING = "request", "answer", "server", "everything"
DIRECTIONS = (REQUEST, ANSWER, SERVER)
"""What comes in, what is answered, and what a server asks of its clients by itself."""

DELAY, DROP, REFUSE, CLOSE, CORRUPT = "delay", "drop", "answer with", "close", "corrupt"
BANDWIDTH, DUPLICATE, SKEW = "bandwidth", "duplicate", "skew"
PARTITION = "partition"
READ_ONLY, DISK_FULL = "read-only", "disk-full"
FREEZE, KILL = "freeze", "kill"
NAMESERVER = "nameserver"
"""What a cluster calls it, among the names of its brokers."""


class Action(NamedTuple):
    """In which directions something can go wrong, the usual one first; none: it is about a whole server."""

    directions: tuple[str, ...] = ()
    is_chancy: bool = True
    """Whether probability, count and message time go with it."""
    is_of_process: bool = False
    """Whether who started the processes does it, not the server itself."""


ACTIONS = {
    DELAY: Action(DIRECTIONS),
    DROP: Action(DIRECTIONS),
    REFUSE: Action((REQUEST,)),
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
"""By name."""
SWITCHES = (READ_ONLY, DISK_FULL)
"""What a broker is, or isn't, as a whole."""
