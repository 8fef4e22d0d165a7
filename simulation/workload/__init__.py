"""What a simulated cluster has to do, and what may happen to it: described in Python, in a page.

    workload = Workload(
        topics=[Topic("orders", queues=4)],
        producers=[Producers("orders", per_second=2)],
        groups=[Group("billing", "orders", members=3)],
        nemesis=Nemesis(may=["kill broker", "freeze member"]),
    )

- `description.py`: these words, and what is wrong with them when something is; `kinds.py`: whether a value is of its
  word's kind
- `conditions.py`: conditions over properties, and what they mean
- `strikes.py`: what can break
- `varying.py`: a workload with something else than its file says
- `loading.py`: a workload from a file; `own_code.py`: what a person's own code raises; `spelling.py`: did you mean
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
