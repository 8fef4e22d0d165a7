"""Starting a cluster, in processes or in this one.

- plan.py: which processes it has; places.py: the ports and folders that it takes; temporary_folder.py: a folder that
  is removed in the end
- processes.py: a cluster of processes; process_faults.py: processes that are frozen or killed on purpose;
  embedded.py: a cluster in this process
- environment.py: misspelt settings in the environment; compat.py: as close to RocketMQ as can be
- grpc_extra.py: can RocketMQ 5's clients be served; container_health.py: are the servers of a container ready
"""
