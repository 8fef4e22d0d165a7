"""All requests of staticfire, each declared once, one module per family. Importing this fills `command.REQUESTS`.

- `send.py`, `pull.py`, `send_back.py`: sending, pulling and retrying messages
- `offsets.py`, `locks.py`: offsets of queues and groups, and queues locked by one member
- `clients.py`: heartbeats; `connections.py`: connected clients, and requests to a client through its broker
- `pop.py`: messages taken for a limited time; `assignment.py`: assignment of queues by brokers
- `routes.py`: where topics are; `brokers.py`: registration of brokers
- `topics.py`, `static_topics.py`, `groups.py`, `config.py`: what administrators create and configure
- `queries.py`: messages by key, id and position; `statistics.py`: statistics
- `controller.py`: who is the master, and elections
- `reset_offset.py`, `upkeep.py`: how administrators move offsets and clean up
- `access.py`: users, policies and access keys
- `reply.py`: replies to messages, forwarded to the requesting client; `transactions.py`: the end of half messages;
  `recall.py`: recalled messages
- `clock.py`, `reset.py`, `snapshots.py`, `journal.py`, `group_state.py`, `totals.py`, `faults.py`: message time, an
  emptied broker, a saved and restored broker, the events on a broker, the state of a group, of all topics and groups,
  injected faults; `imports.py`: messages from another broker; `replication.py`: copies of the log; all of these are
  staticfire's own
"""

from staticfire.protocol.requests import (  # noqa: F401 (imported for their declarations)
    access,
    assignment,
    brokers,
    clients,
    clock,
    config,
    connections,
    controller,
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
    replication,
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
    totals,
    transactions,
    upkeep,
)
