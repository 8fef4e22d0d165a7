"""Commands of mqadmin print with `output.show`, which shows the control characters of messages and names as text."""

import ast
from collections.abc import Iterator

from tests.house.source import Finding, check, found, sources

FOLDER, HOME = "staticfire/cli/mqadmin/", "output.py"
PRINTING = {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"}


def other_prints() -> Iterator[Finding]:
    for source in sources("staticfire"):
        if str(source.path).startswith(FOLDER) and source.path.name != HOME:
            for call in source.calls():
                if ast.unparse(call.func) in PRINTING:
                    yield found(source, call, f"calls {ast.unparse(call.func)}: use output.show")


def test_no_command_of_mqadmin_prints_without_show() -> None:
    check(other_prints)
