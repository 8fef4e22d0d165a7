"""Troubles that people have with RocketMQ, told as stories on virtual time: once as it is, once with what avoids it.

    trouble = Trouble(
        "A new group reads the whole history",
        threads=["apache/rocketmq#334"],
        story=story,  # async def story(stage: Stage, skips: bool) -> Facts
        ways={"RocketMQ's default": {"skips": False}, "skip_young_history=True": {"skips": True}},
    )

`staticfire simulate FILE` plays the `trouble` that a file leaves; docs/troubles.md tells ten of them.

- `trouble.py`: what a trouble is, and how it is played
- `stage.py`: where it happens: a cluster of the real servers and clients, and a few words to use it with
- `telling.py`: a trouble from a file; its numbers as a table
"""

from staticfire.simulation.troubles.stage import Stage
from staticfire.simulation.troubles.trouble import Facts, Trouble

__all__ = ["Facts", "Stage", "Trouble"]
