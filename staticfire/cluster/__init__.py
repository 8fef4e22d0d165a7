"""`Cluster`: a cluster for tests and programs.

- cluster.py, async_cluster.py: `Cluster`, blocking and awaited; running_cluster.py: what both can do;
  cluster_calls.py: how their calls get into the cluster's event loop; cluster_facts.py: what is known without a call
- cluster_clock.py: message time; cluster_dead_letters.py: the dead letters of a group
- cluster_faults.py: what goes wrong on purpose; fault_rules.py: the same for who has connections
"""
