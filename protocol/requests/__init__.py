"""Every request that staticfire knows, declared once, one module per family.

Importing this package fills `command.REQUESTS`.
"""

from staticfire.protocol.requests import (  # noqa: F401 (imported for their declarations)
    brokers,
    clients,
    clock,
    groups,
    locks,
    offsets,
    pull,
    reset,
    routes,
    send,
    send_back,
    topics,
)
