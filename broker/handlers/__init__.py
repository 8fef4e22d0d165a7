"""What the broker does for each request, one module per family.

- `send.py`: one message; `send_batch.py`: one queue's, all or none; `send_many.py`: any, each with its own result;
  `send_runs.py`: what is plain of these, all at once where there is a compiled twin
- `pull.py`: messages go out; `send_back.py`: one comes back; `reply.py`: an answer is passed on;
  `transactions.py`: half messages end; `recall.py`: messages that wait are called back
- `pop.py`: messages are taken for a while; `acks.py`: they are done, or hidden for longer;
  `assignment.py`: who takes which queues
- `offsets.py`, `locks.py`: where groups stand, and queues that one member has for itself
- `clients.py`: clients come and go; `group_watch.py`: what is wrong with their groups
- `connections.py`: who is connected, and questions to them; `group_state.py`: a group from all sides
- `topics.py`, `groups.py`, `config.py`: what administrators create and set; `queues.py`: queues, found but not created
- `queries.py`: messages by key, id and place
- `statistics.py`, `runtime_info.py`: figures; `metrics.py`: those of Prometheus; `journal.py`: what happened;
  `faults.py`: what goes wrong on purpose
- `reset_offset.py`, `upkeep.py`, `reset.py`, `snapshots.py`: groups are moved, a broker is cleaned up, is as if it were
  new, or as it was; `imports.py`: messages that were stored elsewhere
"""
