"""Every request that staticfire knows, declared once, one module per family. Importing this fills `command.REQUESTS`.

- `send.py`, `pull.py`, `send_back.py`: messages on their way
- `offsets.py`, `locks.py`: how far groups have come, and queues that one member has for itself
- `clients.py`: heartbeats; `connections.py`: who is connected, and questions to a client by way of its broker
- `pop.py`: messages taken for a while; `assignment.py`: who takes which queues, where brokers decide
- `routes.py`: where topics are; `brokers.py`: brokers that register
- `topics.py`, `static_topics.py`, `groups.py`, `config.py`: what administrators create and set
- `queries.py`: messages by key, id and place; `statistics.py`: figures
- `reset_offset.py`, `upkeep.py`: what administrators move and clean up
- `reply.py`: answers to messages, passed on to who asked; `transactions.py`: how half messages end;
  `recall.py`: messages called back
- `clock.py`, `reset.py`, `snapshots.py`, `journal.py`, `group_state.py`, `faults.py`: message time, a broker as if it
  were new or as it was, what happened on it, what it sees of a group, what goes wrong on purpose;
  `imports.py`: messages that were stored elsewhere; staticfire's own
"""

from staticfire.protocol.requests import (  # noqa: F401 (imported for their declarations)
    assignment,
    brokers,
    clients,
    clock,
    config,
    connections,
    faults,
    group_state,
    groups,
    imports,
    journal,
    locks,
    offsets,
    pop,
    pull,
    queries,
    recall,
    reply,
    reset,
    reset_offset,
    routes,
    send,
    send_back,
    snapshots,
    static_topics,
    statistics,
    topics,
    transactions,
    upkeep,
)
