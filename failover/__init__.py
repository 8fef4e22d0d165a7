"""Masters, their slaves, and how a slave takes over. Administrators, owners of clusters and nameservers use it.

- replicas.py: how each broker takes part in replication; copies are held and delayed; failovers
- routes.py: where a failover learns which brokers a nameserver has
"""
