"""Masters, their slaves, and how a slave takes over. Administrators, owners of clusters and nameservers use it.

- replica.py: one broker of a set, as it has reported itself
- replicas.py: all of them; copies are held and delayed; a failover, request by request
- decisions.py: which slave takes over, which loss is accepted, the epoch of the next master; pure
- watch.py: failovers without a person, when a master is gone
- routes.py: reads from nameservers which brokers there are
"""
