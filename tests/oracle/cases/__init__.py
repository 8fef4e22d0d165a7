"""The script: each family's steps, in an order in which later ones find what earlier ones made."""

from tests.oracle.cases import clients, frames, groups, offsets, pulls, routes, send_back, sends, topics
from tests.oracle.step import Step


def script() -> list[Step]:
    """Return all steps."""
    families = (sends, topics, groups, routes, pulls, offsets, clients, send_back, frames)
    return [step for family in families for step in family.steps()]
