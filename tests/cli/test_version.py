"""`staticfire --version` says what runs, also whether compiled parts are there."""

import pytest
from click.testing import CliRunner

from staticfire.cli.commands import staticfire
from staticfire.protocol import compiled


@pytest.mark.parametrize(("twin", "words"), [(compiled, "with"), (None, "without")])
def test_version_mentions_the_compiled_parts(twin: object, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "twin", twin)
    shown = CliRunner().invoke(staticfire, ["--version"])
    assert (shown.exit_code, shown.output.partition(" (")[2]) == (0, f"{words} compiled parts)\n")
