"""What somebody could get wrong that only the further kinds of workloads notice (`faults/runs/swarm_kinds.py`)."""

from collections.abc import Callable
from typing import Any

import pytest

from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.pop import checks as pop_checks
from staticfire.broker.pulls import checks as pull_checks
from staticfire.broker.pulls.choosing import Choice
from staticfire.protocol.tags import TagExpression

Patch = pytest.MonkeyPatch


def _tags_never_compared(patch: Patch) -> None:
    patch.setattr(TagExpression, "matches", lambda *_: True)
    patch.setattr(TagExpression, "matches_code", lambda *_: True)


def _all_is_readable(patch: Patch) -> None:
    patch.setattr(pull_checks, "readable", lambda _: True)
    patch.setattr(pop_checks, "readable", lambda _: True)


def _groups_stay_on(patch: Patch) -> None:
    whole = GroupTable.put

    def put(self: GroupTable, group: Any) -> None:
        group.consume_enable = True
        whole(self, group)

    patch.setattr(GroupTable, "put", put)


KIND_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "tags are never compared": _tags_never_compared,
    "a consumer takes the hash code of a tag for the tag": lambda patch: patch.setattr(
        TagExpression, "matches", lambda *_: True
    ),
    "conditions are always true": lambda patch: patch.setattr(
        Choice, "wanted_of", lambda _, slices, starts, sizes: list(zip(slices, starts, sizes, strict=False))
    ),
    "a reset of offsets is lost": lambda patch: patch.setattr(OffsetTable, "reset", lambda *_: None),
    "what may not be read is read": _all_is_readable,
    "a group that is switched off goes on": _groups_stay_on,
}
KINDS_OF: dict[str, str] = {
    "tags are never compared": "filters",
    "a consumer takes the hash code of a tag for the tag": "filters",
    "conditions are always true": "filters",
    "a reset of offsets is lost": "administration",
    "what may not be read is read": "administration",
    "a group that is switched off goes on": "administration",
}
"""Of each mutant: the kind of workload that it is looked for in."""
