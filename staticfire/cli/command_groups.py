"""Groups of commands: `clock freeze`, `dlq list`. Flags may precede or follow the command."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from staticfire.cli.family import FamilyCommand, watch_filled
from staticfire.cli.suggestions import did_you_mean


class Commands(click.Group):
    """Accepts the flags of its commands before the command, too, and lists the commands in an error."""

    command_class = FamilyCommand

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        """`default`: the command to run if there are only flags or no arguments."""
        super().__init__(*args, **{"no_args_is_help": not default, **kwargs})
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = watch_filled(args)
        own = {name for param in self.get_params(ctx) for name in param.opts}
        if not args or args[0] not in own:
            leading = count_leading(args, self._flags_with_value())
            if leading < len(args):
                args = [args[leading], *args[:leading], *args[leading + 1 :]]
            elif self._default and not ctx.resilient_parsing:  # Shell completion may still complete another command.
                args = [self._default, *args]
        return super().parse_args(ctx, args)

    def _flags_with_value(self) -> set[str]:
        options = [param for command in self.all_commands() for param in command.params]
        return {name for one in options if isinstance(one, click.Option) and not one.is_flag for name in one.opts}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        return [*completed(self.short_helps(), incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(self.unknown(args[0]))
        return super().resolve_command(ctx, args)

    def unknown(self, name: str) -> str:
        """Return the error for an unknown command."""
        names = list(self.short_helps())
        return f"unknown command {name}{did_you_mean(name, names) or ';'} the commands are {', '.join(names)}"

    def all_commands(self) -> list[click.Command]:
        """Return the commands themselves."""
        return list(self.commands.values())

    def short_helps(self) -> dict[str, str]:
        """Return a one-line description of each command, by name."""
        return {name: command.get_short_help_str() for name, command in self.commands.items()}


def completed(short_helps: Mapping[str, str], incomplete: str) -> list[Any]:
    """Return the completions of the beginning of a command's name, without loading any command."""
    from click.shell_completion import CompletionItem

    names = short_helps.items()
    return [CompletionItem(name, help=text) for name, text in names if name.lower().startswith(incomplete.lower())]


def count_leading(args: Sequence[str], with_value: Iterable[str]) -> int:
    """Return the number of arguments before the first that is neither a flag nor a flag's value."""
    at, names = 0, set(with_value)
    while at < len(args) and args[at].startswith("-"):
        at += 2 if args[at] in names else 1
    return min(at, len(args))
