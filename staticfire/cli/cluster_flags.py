"""The flags of a whole cluster, which `up` and `run` share. A command gets them as one value."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from staticfire.cli.options import Command, Whole, all_flags, as_settings, compat_flag, settings_flags
from staticfire.cli.stand import ClusterFlags
from staticfire.launch.grpc_extra import HOW_TO_GET_IT, grpc_is_installed
from staticfire.launch.places import FAILOVERS, WantedCluster, WantedControl, WantedUser, check_failover
from staticfire.launch.plan import HOST
from staticfire.protocol.errors import UsageError
from staticfire.protocol.names import user_fault


def cluster_flags(  # house: one flag after another
    namesrv_port: int, broker_port: int, grpc_port: int, control_port: int
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the parameter `flags`, a ClusterFlags. The ports are the defaults."""

    def add(command: Command) -> Command:  # house: one flag after another
        @wraps(command)
        def with_flags(**given: Any) -> Any:
            namesrv = given.pop("namesrv_port")
            wanted = WantedCluster(
                brokers=given.pop("brokers"),
                nameservers=given.pop("nameservers"),
                replicas=given.pop("replicas"),
                failover=given.pop("failover"),
                namesrv_port=namesrv,
                broker_port=given.pop("broker_port"),
                grpc_port=_grpc_port(given.pop("grpc_port"), given.pop("no_grpc"), grpc_port if namesrv else 0),
                directory=given.pop("directory"),
                settings=as_settings(given.pop("assignments")),
                file=given.pop("file"),
                listen=given.pop("listen"),
                compat=given.pop("compat"),
                users=tuple(user_of(text) for text in given.pop("users")),
            )
            check_failover(wanted.failover, wanted.replicas)
            return command(flags=ClusterFlags(wanted, _wanted_control(given, control_port)), **given)

        return all_flags(
            with_flags,
            click.option("--brokers", type=Whole(), default=1, show_default=True, help="Number of brokers."),
            click.option(
                "--replicas", type=Whole(), default=0, show_default=True,
                help="Number of slaves of each broker, which copy its log. docs/replication.md describes them.",
            ),
            click.option(
                "--failover", type=click.Choice(FAILOVERS), default="manual", show_default=True,
                help="auto: a slave takes over by itself when its master is gone. manual: with `staticfire failover`.",
            ),
            click.option("--nameservers", type=Whole(), default=1, show_default=True, help="Number of nameservers."),
            _port_flag("--namesrv-port", namesrv_port, "Port of the first nameserver; each further one is 1 higher."),
            _port_flag("--broker-port", broker_port, "Port of the first broker; each further one is 20 higher."),
            click.option(
                "--grpc-port", type=Whole(0, 65535),
                help="Port of the gRPC endpoint, for RocketMQ 5's clients. 0: any free port. "
                f"[default: {'any free port' if grpc_port == 0 else f'{grpc_port}, or any with --namesrv-port 0'}]",
            ),
            click.option(
                "--listen", envvar="STATICFIRE_LISTEN", default=HOST, show_default=True, metavar="ADDRESS",
                help="The address that servers listen on. 0.0.0.0: all addresses, so that other machines can connect.",
            ),
            click.option("--no-grpc", is_flag=True, help="Don't start the gRPC endpoint."),
            *_control_flags(control_port),
            click.option("--dir", "directory", metavar="DIR", help="Data folder. [default: a temporary folder]"),
            settings_flags,
            _user_flag,
            compat_flag,
        )  # fmt: skip

    return add


_user_flag = click.option(
    "--user", "users", multiple=True, metavar="NAME:SECRET",
    help="Create a user, and check the signature of each request; may be repeated. The first may do everything, the "
        "others what `staticfire allow` allows.",
)  # fmt: skip


def user_of(text: str) -> WantedUser:
    """Return the user of a flag. Raises: UsageError."""
    name, separator, secret = text.partition(":")
    if not separator or not name.strip() or not secret.strip():
        raise UsageError("--user must be written as NAME:SECRET, for example --user admin:secret")
    if fault := user_fault(name.strip()):
        raise UsageError(fault)
    return WantedUser(name.strip(), secret)


def _grpc_port(given: int | None, is_unwanted: bool, default: int) -> int | None:
    """Return the port of the gRPC endpoint, or None if there will be none. Raises: UsageError."""
    if is_unwanted and given is not None:
        raise UsageError("use either --grpc-port or --no-grpc, not both")
    if is_unwanted or grpc_is_installed():
        return None if is_unwanted else default if given is None else given
    if given is not None:
        raise UsageError(f"--grpc-port: the gRPC endpoint needs an optional package: {HOW_TO_GET_IT}")
    return None


def _port_flag(name: str, default: int, text: str) -> Callable[[Command], Command]:
    note = "any free port" if default == 0 else str(default)
    return click.option(name, type=Whole(0, 65535), default=default, help=f"{text} 0: any free port. [default: {note}]")


def _control_flags(port: int) -> list[Callable[[Command], Command]]:
    """Return the flags of the control endpoint."""
    default = f"{port}, or the next free port" if port else "any free port"
    return [
        click.option(
            "--control-port", type=Whole(0, 65535),
            help=f"Port of the control endpoint. 0: any free port. [default: {default}]",
        ),
        click.option(
            "--control-hosts", envvar="STATICFIRE_CONTROL_HOSTS", default="", metavar="NAME,NAME",
            help="Host names that the control endpoint accepts, besides localhost and 127.0.0.1.",
        ),
        click.option(
            "--control-address", default=HOST, show_default=True, metavar="ADDRESS",
            help="The address that the control endpoint listens on. Any address except loopback requires a token.",
        ),
        click.option(
            "--control-token", envvar="STATICFIRE_CONTROL_TOKEN", default="", metavar="TOKEN",
            help="The token that each request to the control endpoint must send, as `Authorization: Bearer TOKEN`. "
                "[default: no token]",
        ),
    ]  # fmt: skip


def _wanted_control(given: dict[str, Any], default_port: int) -> WantedControl:
    """Remove the flags of the control endpoint from `given`; return them."""
    port, host = given.pop("control_port"), given.pop("control_address")
    names = tuple(name.strip() for name in given.pop("control_hosts").split(",") if name.strip())
    return WantedControl(
        port=default_port if port is None else port,
        is_port_chosen=port is not None,
        host=host,
        names=names,
        token=given.pop("control_token"),
    )
