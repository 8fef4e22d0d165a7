"""Starting a cluster, in its own processes or in this one.

- plan.py: which processes a cluster has; places.py: its ports and folders; temporary_folder.py: a folder that is
  removed at the end
- processes.py: a cluster of processes; process_faults.py: rules that suspend or kill processes; brokers_back.py: waits
  for the brokers at a restarted nameserver;
  embedded.py: a cluster in this process; failover_loop.py: slaves that take over by themselves
- environment.py: misspelt settings in the environment; compat.py: settings for RocketMQ's behaviour
- exposure.py: who can use a cluster that other machines reach; copies.py: whether sends can have their copies
- grpc_extra.py: whether RocketMQ 5 clients can be served; container_health.py: whether a container's servers are ready
"""
