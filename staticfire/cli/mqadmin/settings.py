"""`staticfire mqadmin`: settings of brokers and nameservers."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, addresses, ask, command, option, replicas_in, target_flags
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each
from staticfire.client.admin.replica_choice import Replicas
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from staticfire.protocol.requests.routes import MASTER_ID, GetNameserverConfig

if TYPE_CHECKING:
    from staticfire.client import Admin

SETTING = "%-50s=  %s"
NO_MASTER = "NO_MASTER"


@command("getBrokerConfig")
@target_flags
def get_broker_config(session: AdminSession, cluster: str | None, broker: str | None) -> None:
    """Show all settings of brokers.

    With -c: of masters and slaves.
    """

    async def work(admin: "Admin") -> None:
        async def show_one(address: str) -> None:
            _show_settings(titles[address], (await ask(admin, address, GetBrokerConfig())).body)

        titles = {address: [address] for address in await addresses(admin, cluster, broker, with_slaves=True)}
        if cluster is not None:
            titles = _titles(await replicas_in(admin, cluster))
        await at_each(titles, show_one)

    session.run(work)


def _titles(replicas: Replicas) -> dict[str, list[str]]:
    """Return the titles of each broker by address. Before the slaves of a lost master is its title, too."""
    titles: dict[str, list[str]] = {}
    for found in replicas.values():
        master = found.get(MASTER_ID, NO_MASTER)
        for number, (broker_id, address) in enumerate(found.items()):
            titles[address] = [f"Master: {master}"] if number == 0 else []
            if broker_id != MASTER_ID:
                titles[address].append(f"My Master: {master}=====Slave: {address}")
    return titles


@command("updateBrokerConfig")
@target_flags
@option(
    "-a",
    "--updateAllBroker",
    "with_slaves",
    type=bool,
    default=False,
    show_default=True,
    help="With -c: also change it on the slaves.",
)
@option("-k", "--key", required=True, metavar="NAME", help="The setting's name.")
@option("-v", "--value", required=True, metavar="TEXT", help="The new value.")
def update_broker_config(
    session: AdminSession, cluster: str | None, broker: str | None, with_slaves: bool, key: str, value: str
) -> None:
    """Change a setting of running brokers."""
    if any(sign in key + value for sign in "\r\n"):
        raise UsageError("mqadmin: the value of a setting must be one line")

    async def work(admin: "Admin") -> None:
        async def change(address: str) -> None:
            answer = await ask(admin, address, UpdateBrokerConfig(body=f"{key}={value}\n".encode()))
            if answer.remark:
                raise ClientError(f"mqadmin: {address}: {answer.remark}")
            show(f"update broker config success, {address}")

        await at_each(await addresses(admin, cluster, broker, with_slaves), change)

    session.run(work)


@command("getNamesrvConfig")
def get_namesrv_config(session: AdminSession) -> None:
    """Show all settings of the nameservers."""

    async def work(admin: "Admin") -> None:
        async def show_one(address: str) -> None:
            _show_settings([address], (await ask(admin, address, GetNameserverConfig())).body)

        await at_each(admin.client.nameservers.addresses, show_one)

    session.run(work)


def _show_settings(titles: list[str], body: bytes | None) -> None:
    for title in titles:
        show(f"============{title}============")
    pairs = (line.partition("=") for line in (body or b"").decode().splitlines())
    show(lines_of(SETTING, *((name, text) for name, _, text in pairs)))
    show()
