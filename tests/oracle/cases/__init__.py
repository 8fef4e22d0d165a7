"""The script: each family's steps, in an order in which later ones find what earlier ones made.

- `sends.py`, `pulls.py`, `pops.py`, `offsets.py`, `send_back.py`, `timers.py`: messages on their way
- `routes.py`, `topics.py`, `static_topics.py`, `groups.py`, `clients.py`: what there is
- `conditions.py`: conditions over properties, and pulls by them
- `frames.py`: what nobody should send; `common.py`: what several families use
"""

from tests.oracle.cases import (
    clients,
    conditions,
    frames,
    groups,
    offsets,
    pops,
    pulls,
    routes,
    send_back,
    sends,
    static_topics,
    timers,
    topics,
)
from tests.oracle.step import Step


def script() -> list[Step]:
    """Return all steps."""
    families = (
        sends, topics, static_topics, groups, routes, pulls, pops, offsets, clients, send_back, timers, conditions,
        frames,
    )  # fmt: skip
    return [step for family in families for step in family.steps()]
