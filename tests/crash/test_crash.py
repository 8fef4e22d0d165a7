"""A few seeds, and proof that what is broken on purpose is found."""

from collections.abc import Callable

import pytest

from staticfire.broker import restoring
from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.store.log_sync import Span
from staticfire.simulation.world.files import SimulatedFiles
from tests.cases import first_and_slow
from tests.crash.lives import play

SEEDS = (0, 173, 208, 244, 328, 344, 427)
# All but the first have found something once: holes, and what they did to segments, queues and deletions; deletions
# that failed, and what they left of offsets and delays.
BREAKAGE_SEEDS = (1, 13, 27, *range(40))
# The first few find what is broken here as the harness is now.


@pytest.mark.parametrize("seed", first_and_slow(SEEDS))
def test_every_promise_is_kept(seed: int) -> None:
    assert play(seed) > 0


def nothing(*_: object, **__: object) -> None:
    """Stand for a step that somebody forgot."""


def _offsets_ahead(patch: pytest.MonkeyPatch) -> None:
    """Without the comparison at start, which is the second net below it."""
    patch.setattr(ConfigFiles, "restore", _restoring_at_once(ConfigFiles.restore))
    patch.setattr(restoring, "take_back_offsets", lambda *_: [])


BREAKAGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "offsets are saved ahead of the log": _offsets_ahead,
    "what a failed fsync covered isn't written again": lambda patch: patch.setattr(Span, "rewrite", nothing),
    "names are not synced": lambda patch: patch.setattr(SimulatedFiles, "sync_folder", nothing),
}


def _restoring_at_once(restore: Callable[..., bool]) -> Callable[..., bool]:
    def at_once(files: ConfigFiles, *arguments: object, after_log: bool = False, **words: str) -> bool:
        return restore(files, *arguments, **words)

    return at_once


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_broken_on_purpose_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BREAKAGES[name](monkeypatch)
    for seed in BREAKAGE_SEEDS:
        try:
            play(seed)
        except BaseException:  # noqa: BLE001 (whatever it is: it was found)
            return
    pytest.fail(f"{len(BREAKAGE_SEEDS)} seeds have not found it")
