"""Flags that several commands share."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from staticfire.cli.signing import sign_as_owner
from staticfire.launch.plan import NAMESRV_PORT
from staticfire.protocol.errors import UsageError
from staticfire.runtime.ranges import INT64_MAX

Command = Callable[..., Any]


class Assignments(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """`key=value`, split at the first equals sign."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, separator, text = str(value).partition("=")
        if not separator or not key.strip():
            self.fail(f"{value!r} must be written as key=value", param, ctx)
        return key.strip(), text.strip()


class Whole(click.IntRange):
    """A whole number. The error for an invalid one states the valid range."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value} is not a whole number{self._words()}", param, ctx)
        is_below = self.min is not None and number < self.min
        if is_below or (self.max is not None and number > self.max):
            self.fail(f"{value} is not a whole number{self._words()}", param, ctx)
        if number > INT64_MAX:
            self.fail(f"{value} is over the limit of {INT64_MAX}", param, ctx)
        return number

    def _describe_range(self) -> str:
        """Return the range for the help text, or "" if there are no limits."""
        return "" if self.min is None and self.max is None else super()._describe_range()

    def _words(self) -> str:
        if self.max is None:
            return "" if self.min is None else f" of at least {self.min}"
        return f" from {self.min} to {self.max}"


def is_utf8(text: str) -> bool:
    """Return whether an argument was UTF-8: Python has a surrogate for each other byte."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def not_utf8(text: str) -> str:
    """Return the error for an argument that wasn't UTF-8."""
    return f"the argument {text!r} isn't UTF-8"


def settings_flags(command: Command) -> Command:
    """Add `--set` and `--config`."""
    return all_flags(
        command,
        click.option(
            "--set", "assignments", multiple=True, type=Assignments(),
            help="Change a setting, by RocketMQ's name, like autoCreateTopicEnable=false; may be repeated.",
        ),
        click.option("-c", "--config", "file", metavar="FILE", help="A file with settings: TOML or broker.conf."),
    )  # fmt: skip


def compat_flag(command: Command) -> Command:
    """Add `--compat`."""
    return click.option(
        "--compat", metavar="rocketmq-5.3.3", callback=_known_target,
        help="Behave like this version of RocketMQ: turn off every difference that can be turned off, and list the "
            "rest.",
    )(command)  # fmt: skip


def _known_target(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from staticfire.launch.compat import check_target  # here, since few starts need it

        check_target(value)
    return value


def not_empty(value: str) -> str:
    """Check an address of a nameserver; sign as its owner, if it is this user's. Raises: UsageError."""
    if not value.strip():
        raise UsageError("--namesrv is empty; write host:port, for example 127.0.0.1:9876")
    sign_as_owner(value)
    return value


NAMESRV: dict[str, Any] = {
    "envvar": "NAMESRV_ADDR",
    "default": f"127.0.0.1:{NAMESRV_PORT}",
    "show_default": True,
    "metavar": "HOST:PORT",
    "help": "Address of the nameserver; also NAMESRV_ADDR in the environment.",
    "callback": lambda _context, _param, value: not_empty(value),
}


def namesrv_flag(command: Command) -> Command:
    """Add `--namesrv`, and the flags of TLS."""
    return click.option("-n", "--namesrv", **NAMESRV)(tls_flags(command))


def tls_flags(command: Command) -> Command:
    """Add `--tls` and `--tls-trust`. They have the effect of environment variables, so that all clients see them.

    They are parsed before --namesrv: the file of a cluster's owner may say TLS, too, and counts less (signing.py).
    """
    return all_flags(
        command,
        click.option(
            "--tls", is_flag=True, is_eager=True, expose_value=False, callback=_speak_tls,
            help="Use TLS. The server isn't verified. [env: STATICFIRE_TLS_ENABLE=true]",
        ),
        click.option(
            "--tls-trust", metavar="FILE", is_eager=True, expose_value=False, callback=_trust,
            help="Use TLS, and verify the server: PEM file of its CA. [env: STATICFIRE_TLS_CLIENT_TRUST_CERT_PATH]",
        ),
    )  # fmt: skip


def _speak_tls(_: click.Context, __: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        os.environ["STATICFIRE_TLS_ENABLE"] = "true"


def _trust(_: click.Context, __: click.Parameter, path: str | None) -> None:
    if path:
        os.environ["STATICFIRE_TLS_ENABLE"] = "true"
        os.environ["STATICFIRE_TLS_CLIENT_TRUST_CERT_PATH"] = path


def protocol_flag(command: Command) -> Command:
    """Add `--protocol`."""
    return click.option(
        "--protocol", type=click.Choice(["staticfire", "rocketmq"]), default="staticfire", show_default=True,
        help="rocketmq also works with nameservers and brokers of Apache RocketMQ.",
    )(command)  # fmt: skip


def all_flags(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    """Apply decorators so that help lists them in this order."""
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def as_settings(assignments: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the `--set` flags as a dictionary. The last value of a key wins."""
    return dict(assignments)
