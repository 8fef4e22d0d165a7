"""A shop: orders are billed and shipped, reminders come later, payments are transactions; anything may break.

staticfire simulate --seeds 20 --hours 0.1 examples/simulations/shop.py
"""

from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Transactions, Workload

workload = Workload(
    brokers=Brokers(2, settings={"flush_disk_type": "SYNC_FLUSH"}),
    topics=[Topic("orders", queues=4), Topic("reminders", queues=2), Topic("payments", queues=2)],
    producers=[
        Producers("orders", per_second=4, clients=2, name="web", keys=50),
        Producers("reminders", per_second=0.5, delay_level=3),
        Producers("payments", per_second=1, transactions=Transactions(commit=0.6, rollback=0.2)),
    ],
    groups=[
        Group("billing", ["orders", "payments"], members=3, fails=0.02, poison=0.005, retries_max=2),
        Group("shipping", "orders", members=2, ordered=True, takes_ms=(1, 20)),
        Group("mailing", "reminders", members=2),
    ],
    nemesis=Nemesis(every_seconds=20),
    settles_within_seconds=400,
)
