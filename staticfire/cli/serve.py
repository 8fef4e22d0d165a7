"""What the commands for a single server share: parse the flags, then turn this process into the server.

It uses exec, so the server has the same process id and gets the signals, without the libraries of the command line. A
stop signal that arrives meanwhile is held back (commands.py) until the server can handle it.
"""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from staticfire.launch.environment import check_environment
from staticfire.runtime.config import non_defaults, without_secrets
from staticfire.runtime.config_help import describe, example_toml
from staticfire.runtime.live_settings import as_properties
from staticfire.runtime.loading import load_settings
from staticfire.runtime.spawning import child_environment, interpreter


def settings_of(
    cls: type[Any],
    flags: Mapping[str, str | None],
    given: Mapping[str, str],
    file: str | None,
    compat: str | None = None,
) -> dict[str, str]:
    """Return the settings that differ from the defaults. `flags` have priority over `--set`. Raises: UsageError.

    Unknown lines of a RocketMQ file and unknown environment variables, which may be for other programs, are reported.
    """
    check_environment(os.environ, tell)
    overrides = {**given, **{key: text for key, text in flags.items() if text is not None}}
    defaults: Mapping[str, str] = {}
    if compat is not None:
        from staticfire.launch.compat import compat_settings, lines_of  # here, since few starts need it

        defaults = compat_settings(compat)
        for line in lines_of(compat):
            tell(line)
    settings = load_settings(cls, overrides, os.environ, file, tell=tell, defaults=defaults)
    public, secrets = without_secrets(cls, non_defaults(settings))
    os.environ.update(secrets)  # The server reads them there: the list of processes must not show them.
    return public


def become(module: str, settings: Mapping[str, str], temporary: str = "") -> NoReturn:
    """Replace this process with the server `module`. It removes the folder `temporary` at its end."""
    command = [*interpreter(), "-m", module, "--settings", json.dumps(dict(settings))]
    if temporary:
        command += ["--temporary", temporary]
    os.execve(command[0], command, child_environment())


def accompany(module: str, settings: Mapping[str, str]) -> None:
    """Start another server, which stops when this process ends, whatever this process turns into."""
    ours, its = socket.socketpair()
    os.set_inheritable(ours.fileno(), True)  # The other server stops when this is closed, so it must survive `become`.
    command = [*interpreter(), "-m", module, "--settings", json.dumps(dict(settings)), "--parent-fd", str(its.fileno())]
    subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=child_environment())
    ours.detach()
    its.close()


def temporary_folder(name: str) -> str:
    """Create a temporary folder for a server without one, and report it. The server creates its own folder in it."""
    folder = f"{tempfile.mkdtemp(prefix='staticfire-')}/{name}"
    click.echo(f"data is in {folder} (temporary, removed at the end); use --dir to keep it", err=True)
    return folder


def tell(words: str) -> None:
    """Print a message on stderr, for readers of the log."""
    click.echo(f"staticfire: {words}", err=True)


def print_settings(settings: Any) -> None:
    """Print the effective settings, like RocketMQ's -p."""
    for key, text in sorted(as_properties(settings).items()):
        click.echo(f"{key}={text}")


def rocketmq_flags(command: Any) -> Any:
    """Add the flags of RocketMQ's start scripts. RocketMQ: ServerUtil, BrokerStartup."""
    for flag in (
        click.option("-m", "--printImportantConfig", "important", is_flag=True, help="Same as -p."),
        click.option("-p", "--printConfigItem", "printing", is_flag=True, help="Print all settings and exit."),
        click.option(
            "-c",
            "--configFile",
            "file",
            metavar="FILE",
            help="A file with settings: broker.conf, namesrv.conf or TOML.",
        ),
        click.option(
            "-n",
            "--namesrvAddr",
            "namesrv",
            metavar="HOST:PORT",
            help="Addresses of the nameservers. [default: NAMESRV_ADDR]",
        ),
    ):
        command = flag(command)
    return command


def show_settings(cls: type, as_toml: bool) -> None:
    """Print all settings, as a table or as a template for a file."""
    if as_toml:
        click.echo(example_toml(cls), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("setting", "takes", "default", "", box=None, header_style="bold", pad_edge=False)
    for setting in describe(cls):
        table.add_row(setting.key, setting.takes, setting.default, setting.text)
    Console().print(table)


def settings_list_flag(command: Any) -> Any:
    """Add `--settings`."""
    return click.option(
        "--settings", "listing", type=click.Choice(["table", "toml"]), is_flag=False, flag_value="table",
        help="Show all settings and exit: as a table, or as a file to edit (--settings toml).",
    )(command)  # fmt: skip
