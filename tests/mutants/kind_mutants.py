"""What somebody could get wrong that only the further kinds of workloads notice (`faults/runs/swarm_kinds.py`)."""

from collections.abc import Callable

import pytest

from staticfire.broker.pulls.choosing import Choice
from staticfire.protocol.tags import TagExpression

Patch = pytest.MonkeyPatch


def _tags_never_compared(patch: Patch) -> None:
    patch.setattr(TagExpression, "matches", lambda *_: True)
    patch.setattr(TagExpression, "matches_code", lambda *_: True)


KIND_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "tags are never compared": _tags_never_compared,
    "a consumer takes the hash code of a tag for the tag": lambda patch: patch.setattr(
        TagExpression, "matches", lambda *_: True
    ),
    "conditions are always true": lambda patch: patch.setattr(
        Choice, "wanted_of", lambda _, slices, starts, sizes: list(zip(slices, starts, sizes, strict=False))
    ),
}
KINDS_OF: dict[str, str] = {
    "tags are never compared": "filters",
    "a consumer takes the hash code of a tag for the tag": "filters",
    "conditions are always true": "filters",
}
"""Of each mutant: the kind of workload that it is looked for in."""
