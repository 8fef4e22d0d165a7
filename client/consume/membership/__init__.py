"""A consumer as a member of its group.

- membership.py: how it joins and leaves; version_adoption.py: what happens to an outdated subscription
- rebalance_loop.py: the plan for one topic and the loop of a client; rebalancer.py: one consumer's share;
  server_assignment.py: the share as brokers assign it; assigned_queues.py: queues taken and given away
- lock_keeper.py: locks acquired, renewed and released; queue_locks.py: the requests to brokers
- admin_requests.py: requests of administrators, forwarded by brokers; running_info.py, stacks.py: the responses about
  this consumer
"""
