"""Groups of commands: `clock freeze`, `dlq list`. Flags may stand before the command or behind it."""

from collections.abc import Iterable, Sequence
from typing import Any

import click


class Commands(click.Group):
    """Takes the flags of its commands in front of them, too, and says which commands there are."""

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        """`default`: the command that is meant when flags stand there alone, or nothing."""
        super().__init__(*args, **{"no_args_is_help": not default, **kwargs})
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for param in self.get_params(ctx) for name in param.opts}
        if not args or args[0] not in own:
            leading = count_leading(args, self._flags_with_value())
            if leading < len(args):
                args = [args[leading], *args[:leading], *args[leading + 1 :]]
            elif self._default:
                args = [self._default, *args]
        return super().parse_args(ctx, args)

    def _flags_with_value(self) -> set[str]:
        options = [param for command in self.commands.values() for param in command.params]
        return {name for one in options if isinstance(one, click.Option) and not one.is_flag for name in one.opts}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(self.unknown(args[0]))
        return super().resolve_command(ctx, args)

    def unknown(self, name: str) -> str:
        """Say that there is no such command."""
        return f"there is no command {name}; there are {', '.join(self.commands)}"


def count_leading(args: Sequence[str], with_value: Iterable[str]) -> int:
    """Return how many arguments stand in front of the first that is no flag and no flag's value."""
    at, names = 0, set(with_value)
    while at < len(args) and args[at].startswith("-"):
        at += 2 if args[at] in names else 1
    return min(at, len(args))
