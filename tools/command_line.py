"""The commands and their flags, as tables for docs/command-line.md."""

from collections.abc import Iterator

import click

from staticfire.cli.commands import staticfire
from tools.generated import markdown_table

SERVERS = ("up", "run", "nameserver", "broker", "proxy", "dashboard", "simulate", "pipeline", "mqadmin")
"""Commands that have their own pages."""


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands below a command that aren't groups, with their names."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from walk(below, (*path, name))


def family_table() -> str:
    """Return the table of commands that inspect a cluster."""
    rows = []
    for path, command in walk(staticfire):
        if path[0] not in SERVERS:
            arguments = [param.make_metavar(click.Context(command)) for param in command.params if _is_argument(param)]
            rows.append([f"`{' '.join([*path, *arguments])}`", _first_line(command), _flags(command, "--")])
    return markdown_table(["command", "", "flags"], rows)


def mqadmin_table() -> str:
    """Return the table of RocketMQ's commands."""
    rows = [
        [f"`{path[1]}`", _first_line(command), _flags(command, "-")]
        for path, command in walk(staticfire)
        if path[0] == "mqadmin"
    ]
    return markdown_table(["command", "", "flags"], rows)


def _is_argument(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument)


def _first_line(command: click.Command) -> str:
    return (command.help or "").split("\n\n")[0].replace("\n", " ")


def _flags(command: click.Command, prefix: str) -> str:
    """Return a command's flags without those that all commands have: the long ones, or all names of each."""
    shown = []
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in ("namesrv", "protocol"):
            names = [name for name in param.opts if name.startswith(prefix)]
            shown.append(f"`{'` `'.join(names)}`")
    return ", ".join(shown)
