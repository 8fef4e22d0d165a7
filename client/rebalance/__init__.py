"""Who gets which queues: the strategies, the loop, and the queues that a consumer owns.

- allocation.py, consistent_hash.py, machine_rooms.py: the strategies
- rebalance_loop.py: the plan for one topic and the loop of a client
- rebalancer.py: one consumer's share; server_assignment.py: as brokers say it; assigned_queues.py: taking, giving away
- lock_keeper.py: locks had, renewed and given back; queue_locks.py: locks asked of brokers
"""
