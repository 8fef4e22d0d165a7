"""`Cluster`: a cluster for tests and programs.

- cluster.py, async_cluster.py: `Cluster` for blocking code, `AsyncCluster` for asynchronous code;
  running_cluster.py: the operations of both; cluster_calls.py: how their calls get into the cluster's event loop;
  cluster_facts.py: properties that need no request
- cluster_clock.py: message time; cluster_dead_letters.py: the dead letters of a group
- remote_cluster.py: clock and faults of a cluster that another process started
- cluster_faults.py: fault injection; fault_rules.py: the same for code that has connections already
- cluster_users.py: users and what they may do; access_copy.py: what brokers store about them
"""
