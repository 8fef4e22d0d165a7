"""`staticfire mqadmin`: brokers and their statistics."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, addresses, ask, command, option, target_flags
from staticfire.cli.mqadmin.java_text import lines_of
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each, repeat
from staticfire.cli.mqadmin.tables import broker_places, brokers_text, totals_text
from staticfire.cli.options import Whole
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.routes import KVTable
from staticfire.protocol.requests.statistics import GetRuntimeInfo

if TYPE_CHECKING:
    from staticfire.client import Admin

FIGURE = "%-32s: %s"
FIGURE_OF_BROKER = "%-24s %-32s: %s"


@command("clusterList")
@option("-m", "--moreStats", "totals", is_flag=True, help="Show the messages of yesterday and today instead.")
@option("-i", "--interval", "interval_s", type=Whole(1), metavar="SECONDS", help="Repeat until Ctrl-C.")
@option("-c", "--clusterName", "cluster", metavar="CLUSTER", help="Only this cluster.")
def cluster_list(session: AdminSession, totals: bool, interval_s: int | None, cluster: str | None) -> None:
    """List all brokers."""

    async def work(admin: "Admin") -> None:
        await repeat(admin, interval_s, lambda: _show_brokers(admin, totals, cluster))

    session.run(work)


async def _show_brokers(admin: "Admin", totals: bool, cluster: str | None) -> None:
    info = await admin.cluster_info()
    if cluster is not None and cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise ClientError(f"no broker of a cluster {cluster} is registered; registered clusters: {known}")
    states: dict[str, dict[str, str]] = {}

    async def read(address: str) -> None:
        states[address] = await _state(admin, address)

    try:
        await at_each([place[3] for place in broker_places(info, cluster)], read)
    finally:  # A broker without a response is in the table, too, as in RocketMQ.
        wall_ms = admin.client.machine.clock.wall_ms()
        show(totals_text(info, states, cluster) if totals else brokers_text(info, states, wall_ms, cluster))


async def _state(admin: "Admin", address: str) -> dict[str, str]:
    state: KVTable = (await ask(admin, address, GetRuntimeInfo())).body
    return state.table


@command("brokerStatus")
@target_flags
def broker_status(session: AdminSession, cluster: str | None, broker: str | None) -> None:
    """Show the statistics of brokers."""

    async def work(admin: "Admin") -> None:
        async def show_figures(address: str) -> None:
            figures = sorted((await _state(admin, address)).items())
            if broker:
                show(lines_of(FIGURE, *figures))
            else:
                show(lines_of(FIGURE_OF_BROKER, *((address, *one) for one in figures)))

        await at_each(await addresses(admin, cluster, broker, with_slaves=True), show_figures)

    session.run(work)
