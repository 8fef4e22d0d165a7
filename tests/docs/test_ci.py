"""docs/ci.md: its jobs are YAML, and what they run of staticfire are commands that it has."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import yaml

from staticfire.cli.commands import staticfire
from tests.cli.commands import ROOT

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(of: Any) -> Iterator[list[str]]:
    """Yield the words of each command of staticfire in a job: lines of scripts, and commands of services."""
    if isinstance(of, dict):
        for value in of.values():
            yield from commands(value)
    elif isinstance(of, list) and of[:1] == ["staticfire"]:
        yield of[1:]
    elif isinstance(of, list):
        for value in of:
            yield from commands(value)
    elif isinstance(of, str) and of.startswith("staticfire "):
        yield shlex.split(of)[1:]


def test_its_commands_are_ones() -> None:
    jobs = [yaml.safe_load(found) for found in YAML.findall((ROOT / "docs" / "ci.md").read_text())]
    found = [words for job in jobs for words in commands(job)]
    assert sorted({words[0] for words in found}) == ["run", "up"]
    for name, *words in found:
        context = click.Context(staticfire)
        command = staticfire.get_command(context, name)
        assert command is not None, name
        command.make_context(name, words, parent=context)  # raises an error that names a wrong flag
