"""What somebody could get wrong about what is lost with the power, and about who comes back late."""

from collections.abc import Callable

import pytest

from staticfire.broker.groups.late_commits import LateCommits
from staticfire.broker.store.recovery import Recovery

LOSS_MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the log continues behind a hole": lambda patch: patch.setattr(Recovery, "_ends_at_a_hole", lambda *_: False),
    "a late commit sets its group back": lambda patch: patch.setattr(LateCommits, "is_late", lambda *_: False),
}
