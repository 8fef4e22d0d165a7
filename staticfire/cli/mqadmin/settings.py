"""`staticfire mqadmin`: settings of brokers and nameservers."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, addresses, ask, command, option, target_flags
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.output import show
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.routes import GetNameserverConfig

if TYPE_CHECKING:
    from staticfire.client import Admin

SETTING = "%-50s=  %s"


@command("getBrokerConfig")
@target_flags
def get_broker_config(session: AdminSession, cluster: str | None, broker: str | None) -> None:
    """Show all settings of brokers."""

    async def work(admin: "Admin") -> None:
        for address in await addresses(admin, cluster, broker):
            role = "" if broker else "Master: "
            _show_settings(f"{role}{address}", (await ask(admin, address, GetBrokerConfig())).body)

    session.run(work)


@command("updateBrokerConfig")
@target_flags
@option(
    "-a",
    "--updateAllBroker",
    "_all",
    metavar="true|false",
    help="Accepted for compatibility; there are no replicas here.",
)
@option("-k", "--key", required=True, metavar="NAME", help="The setting's name.")
@option("-v", "--value", required=True, metavar="TEXT", help="The new value.")
def update_broker_config(
    session: AdminSession, cluster: str | None, broker: str | None, _all: str | None, key: str, value: str
) -> None:
    """Change a setting of running brokers."""
    if any(sign in key + value for sign in "\r\n"):
        raise UsageError("mqadmin: the value of a setting must be one line")

    async def work(admin: "Admin") -> None:
        for address in await addresses(admin, cluster, broker):
            answer = await ask(admin, address, UpdateBrokerConfig(body=f"{key}={value}\n".encode()))
            if answer.remark:
                raise ClientError(f"mqadmin: {address}: {answer.remark}")
            show(f"update broker config success, {address}")

    session.run(work)


@command("getNamesrvConfig")
def get_namesrv_config(session: AdminSession) -> None:
    """Show all settings of the nameservers."""

    async def work(admin: "Admin") -> None:
        for address in admin.client.nameservers.addresses:
            _show_settings(address, (await ask(admin, address, GetNameserverConfig())).body)

    session.run(work)


def _show_settings(title: str, body: bytes | None) -> None:
    show(f"============{title}============")
    pairs = (line.partition("=") for line in (body or b"").decode().splitlines())
    show(lines_of(SETTING, *((name, text) for name, _, text in pairs)))
    show()
