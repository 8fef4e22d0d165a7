"""`staticfire broker`: one broker in the foreground."""

import click

from staticfire.broker.settings import BrokerSettings
from staticfire.cli.options import Whole, as_settings, compat_flag, settings_flags
from staticfire.cli.serve import become, settings_list_flag, settings_of, show_settings, temporary_folder
from staticfire.runtime.addresses import parse_address


@click.command()
@click.option(
    "-n",
    "--namesrv",
    envvar="NAMESRV_ADDR",
    metavar="HOST:PORT",
    help="Addresses of the nameservers; also NAMESRV_ADDR.",
)
@click.option("--name", metavar="NAME", help="The broker's name. [default: broker-a]")
@click.option("--port", type=Whole(0, 65535), help="The port to listen on. 0: any free port. [default: 10911]")
@click.option("--dir", "directory", metavar="DIR", help="Folder for the data. [default: a temporary folder]")
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="The address that clients connect to. [default: chosen per client, so that it can be reached]",
)
@click.option(
    "--salvage",
    is_flag=True,
    help="Move damaged parts of the log to another folder, and continue with the undamaged messages.",
)
@settings_flags
@compat_flag
@settings_list_flag
def broker(
    namesrv: str | None,
    name: str | None,
    port: int | None,
    directory: str | None,
    advertise: str | None,
    salvage: bool,
    assignments: tuple[tuple[str, str], ...],
    file: str | None,
    compat: str | None,
    listing: str | None,
) -> None:
    """Start one broker in the foreground. It registers at the given nameservers.

    It prints `boot success` on stdout when clients can use it, logs to stderr, and stops on Ctrl-C or SIGTERM after
    it has written its data. Settings come from flags, then STATICFIRE_<NAME> in the environment, then --config;
    --settings lists them all. To start a nameserver and brokers with one command, use `staticfire up`.

    \b
    Example:
        staticfire broker -n 127.0.0.1:9876 --name broker-a --dir ./data
    """
    if listing is not None:
        show_settings(BrokerSettings, listing == "toml")
        return
    flags = {
        "namesrvAddr": namesrv,
        "brokerName": name,
        "listenPort": None if port is None else str(port),
        "storePathRootDir": directory,
        "salvage": "true" if salvage else None,
    }
    if advertise is not None:
        host, advertised_port = parse_address(advertise, default_port=0)
        flags |= {"brokerIP1": host, "advertisedPort": str(advertised_port)}
    settings = settings_of(BrokerSettings, flags, as_settings(assignments), file, compat)
    folder = "" if settings.get("store_path_root_dir") else temporary_folder("broker")
    if folder:
        settings["store_path_root_dir"] = folder
    become("staticfire.broker", settings, temporary=folder)
