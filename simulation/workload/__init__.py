"""The description of a simulated run, in a page of Python: what the cluster does, and which faults may occur.

    workload = Workload(
        topics=[Topic("orders", queues=4)],
        producers=[Producers("orders", per_second=2)],
        groups=[Group("billing", "orders", members=3)],
        nemesis=Nemesis(may=["kill broker", "freeze member"]),
    )

- `description.py`: the classes of a description, and their checks; `kinds.py`: checks the types of their values
- `conditions.py`: conditions over properties, and their meaning
- `strikes.py`: the faults
- `varying.py`: changes of a workload from the command line
- `loading.py`: reads a workload from a file; `own_code.py`: errors of users' code; `spelling.py`: suggests names
"""

from staticfire.simulation.workload.description import (
    Brokers,
    Group,
    Nemesis,
    Producers,
    Topic,
    Transactions,
    Workload,
)

__all__ = ["Brokers", "Group", "Nemesis", "Producers", "Topic", "Transactions", "Workload"]
