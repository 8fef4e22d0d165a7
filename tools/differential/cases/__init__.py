"""The script: each family's steps, in an order in which later ones find what earlier ones made."""

from tools.differential.cases import clients, frames, groups, offsets, pulls, routes, send_back, sends, topics
from tools.differential.step import Step


def script() -> list[Step]:
    """Return all steps."""
    families = (sends, topics, groups, routes, pulls, offsets, clients, send_back, frames)
    return [step for family in families for step in family.steps()]
