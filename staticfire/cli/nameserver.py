"""`staticfire nameserver`: one nameserver in the foreground."""

import click

from staticfire.cli.options import Whole, as_settings, settings_flags
from staticfire.cli.serve import become, settings_list_flag, settings_of, show_settings
from staticfire.nameserver.settings import NameserverSettings


@click.command()
@click.option("--port", type=Whole(0, 65535), help="The port to listen on. 0: any free port. [default: 9876]")
@click.option("--dir", "directory", metavar="DIR", help="Folder for the key-value settings. [default: in memory]")
@settings_flags
@settings_list_flag
def nameserver(
    port: int | None,
    directory: str | None,
    assignments: tuple[tuple[str, str], ...],
    file: str | None,
    listing: str | None,
) -> None:
    """Start one nameserver in the foreground. Brokers register there, and clients read routes there.

    It prints `boot success` on stdout when it is ready, logs to stderr, and stops on Ctrl-C or SIGTERM. Settings come
    from flags, then STATICFIRE_<NAME> in the environment, then --config; --settings lists them all. To start a
    nameserver and brokers with one command, use `staticfire up`.
    """
    if listing is not None:
        show_settings(NameserverSettings, listing == "toml")
        return
    flags = {"listenPort": None if port is None else str(port), "folder": directory}
    become("staticfire.nameserver", settings_of(NameserverSettings, flags, as_settings(assignments), file))
