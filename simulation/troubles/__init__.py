"""Troubles that users have with RocketMQ, as stories on virtual time: once with the problem, once with the fix.

    trouble = Trouble(
        "A new group reads the whole history",
        threads=["apache/rocketmq#334"],
        story=story,  # async def story(stage: Stage, skips: bool) -> Facts
        ways={"RocketMQ's default": {"skips": False}, "skip_young_history=True": {"skips": True}},
    )

`staticfire simulate FILE` plays the variable `trouble` of a file; docs/troubles.md describes ten of them.

- `trouble.py`: a trouble, and how it is played
- `stage.py`: a cluster of real servers and clients, with short methods for stories; `replica_pair.py`: a master and its
  slave
- `telling.py`: reads a trouble from a file; its results as a table
"""

from staticfire.simulation.troubles.stage import Stage
from staticfire.simulation.troubles.trouble import Facts, Trouble

__all__ = ["Facts", "Stage", "Trouble"]
