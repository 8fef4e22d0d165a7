"""Every request that staticfire knows, declared once, one module per family.

Importing this package fills `command.REQUESTS`.
"""

from staticfire.protocol.requests import (  # noqa: F401 (imported for their declarations)
    brokers,
    clients,
    clock,
    config,
    connections,
    groups,
    locks,
    offsets,
    pull,
    queries,
    reset,
    reset_offset,
    routes,
    send,
    send_back,
    statistics,
    topics,
    upkeep,
)
