"""The request handlers of the broker, one module per family of requests.

- `send.py`: sends of one message; `send_batch.py`: a batch for one queue, all messages or none; `send_many.py`:
  messages for any queues, each with its own result; `send_runs.py`: runs of plain sends, handled by the compiled twin
- `pull.py`: pulls; `send_back.py`: messages that a consumer sends back; `reply.py`: replies, passed on to the
  requester; `transactions.py`: the end of half messages; `recall.py`: recalls of waiting messages
- `pop.py`: pops; `acks.py`: acknowledgements and changes of the invisible time; `assignment.py`: assignment of queues
- `offsets.py`: offsets of queues and groups; `locks.py`: queues that one member locks for itself
- `clients.py`: heartbeats and unregistration of clients; `group_watch.py`: reports problems of consumer groups;
  `member_notices.py`: notifies members to rebalance
- `connections.py`: lists of clients, and requests passed on to a client; `group_state.py`: the whole state of a group;
  `totals.py`: all topics, groups and waiting messages
- `topics.py`, `groups.py`, `config.py`: changes by administrators; `queues.py`: finds a queue without creating it
- `access.py`: users and policies, and what clients say about themselves
- `queries.py`: finds messages by key, id and position
- `statistics.py`, `runtime_info.py`: figures; `metrics.py`: figures for Prometheus; `journal.py`: reads the journal;
  `faults.py`: fault rules
- `reset_offset.py`: moves groups; `upkeep.py`: cleans up; `reset.py`: empties the broker; `snapshots.py`: saves and
  restores it; `imports.py`: stores copies of messages from another cluster
"""
