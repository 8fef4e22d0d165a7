"""Lists of things, a line each: as a table for people, as JSON for programs."""

import json
from typing import Any

import click

from staticfire.client import Admin, ClientSettings


def admin_of(namesrv: str, protocol: str) -> Admin:
    """Return who asks. Raises: UsageError, ClientError."""
    return Admin(namesrv, ClientSettings(protocol=protocol))  # type: ignore[arg-type]  # one of its words: see the flag


def print_lines(lines: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    """Print lines that have the same cells; `nothing`: what is said when there are none."""
    if as_json:
        for line in lines:
            click.echo(json.dumps(line, ensure_ascii=False))
        return
    if not lines:
        click.echo(nothing)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for number, name in enumerate(lines[0]):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    for line in lines:
        table.add_row(*(Text(str(cell)) for cell in line.values()))
    Console().print(table)
