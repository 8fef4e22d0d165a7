"""`staticfire nameserver`: one nameserver in the foreground."""

import click

from staticfire.cli.options import Whole, as_settings, settings_flags
from staticfire.cli.serve import become, settings_list_flag, settings_of, show_settings
from staticfire.nameserver.settings import NameserverSettings


@click.command()
@click.option("--port", type=Whole(0, 65535), help="Its port; 0: any free one. [default: 9876]")
@click.option("--dir", "directory", metavar="DIR", help="Where key-value settings are kept. [default: in memory]")
@settings_flags
@settings_list_flag
def nameserver(
    port: int | None,
    directory: str | None,
    assignments: tuple[tuple[str, str], ...],
    file: str | None,
    listing: str | None,
) -> None:
    """One nameserver in the foreground, at which brokers register and clients ask for routes.

    It says `boot success` on stdout when it can be asked, logs to stderr, and stops on Ctrl-C or SIGTERM. Settings come
    from flags, then STATICFIRE_<NAME> in the environment, then --config; --settings lists them all. For a nameserver
    with brokers in one command there is `staticfire up`.
    """
    if listing is not None:
        show_settings(NameserverSettings, listing == "toml")
        return
    flags = {"listenPort": None if port is None else str(port), "folder": directory}
    become("staticfire.nameserver", settings_of(NameserverSettings, flags, as_settings(assignments), file))
