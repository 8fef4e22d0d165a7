"""`staticfire broker`: one broker in the foreground."""

import click

from staticfire.broker.settings import BrokerSettings
from staticfire.cli.options import Whole, as_settings, compat_flag, settings_flags
from staticfire.cli.serve import become, settings_list_flag, settings_of, show_settings, temporary_folder
from staticfire.runtime.addresses import parse_address


@click.command()
@click.option("-n", "--namesrv", envvar="NAMESRV_ADDR", metavar="HOST:PORT", help="Nameservers; also NAMESRV_ADDR.")
@click.option("--name", metavar="NAME", help="The broker's name. [default: broker-a]")
@click.option("--port", type=Whole(0, 65535), help="Its port; 0: any free one. [default: 10911]")
@click.option("--dir", "directory", metavar="DIR", help="Where data is kept. [default: a temporary folder]")
@click.option("--advertise", metavar="HOST[:PORT]", help="What clients are told. [default: where each of them is]")
@click.option("--salvage", is_flag=True, help="Move damaged parts of the log aside and go on with what is whole.")
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
    """One broker in the foreground, which registers at the nameservers it is given.

    It says `boot success` on stdout when clients can use it, logs to stderr, and stops on Ctrl-C or SIGTERM after
    writing what it has. Settings come from flags, then STATICFIRE_<NAME> in the environment, then --config; --settings
    lists them all. For a nameserver with brokers in one command there is `staticfire up`.

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
