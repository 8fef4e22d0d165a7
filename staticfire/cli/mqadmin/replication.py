"""`staticfire mqadmin`: how far the slaves of brokers are. RocketMQ: HAStatusSubCommand."""

from typing import TYPE_CHECKING

import click

from staticfire.cli.mqadmin.frame import AskedCluster, addresses, ask, command, option, target_flags
from staticfire.cli.mqadmin.java_text import lines_of, moment_ms
from staticfire.cli.options import Whole
from staticfire.protocol.requests.upkeep import CopyRuntime, GetHighAvailability, HighAvailability

if TYPE_CHECKING:
    from staticfire.client import Admin

SLAVES = "%-32s  %-16s %16s %16s %16s %16s"
SLAVE_HEADINGS = ("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
KIB = 1024


@command("haStatus")
@option("-i", "--interval", "interval_s", type=Whole(1), metavar="SECONDS", help="Repeat until Ctrl-C.")
@target_flags
def ha_status(asked: AskedCluster, interval_s: int | None, cluster: str | None, broker: str | None) -> None:
    """Show how far the slaves of brokers are."""

    async def work(admin: "Admin") -> None:
        await _show(admin, cluster, broker)
        while interval_s is not None:
            await admin.pause_for(interval_s * 1_000)
            await _show(admin, cluster, broker)

    asked.run(work)


async def _show(admin: "Admin", cluster: str | None, broker: str | None) -> None:
    for address in await addresses(admin, cluster, broker):
        state: HighAvailability = (await ask(admin, address, GetHighAvailability())).body
        click.echo(master_text(address, state) if state.master else slave_text(state.ha_client_runtime_info))


def master_text(address: str, state: HighAvailability) -> str:
    """Return a master's view of its slaves."""
    slaves = state.ha_connection_info
    rows = [
        (
            one.addr,
            one.slave_ack_offset,
            one.diff,
            f"{one.transferred_byte_in_second / KIB:.2f}",
            "OK" if one.in_sync else "Fall Behind",
            one.transfer_from_where,
        )
        for one in slaves
    ]
    head = {
        "MasterAddr": address,
        "MasterCommitLogMaxOffset": state.master_commit_log_max_offset,
        "SlaveNum": len(slaves),
        "InSyncSlaveNum": state.in_sync_slave_nums,
    }
    return f"{_pairs(head)}\n{lines_of(SLAVES, SLAVE_HEADINGS, *rows)}"


def slave_text(state: CopyRuntime) -> str:
    """Return a slave's view of its copy."""
    return _pairs(
        {
            "MasterAddr": state.master_addr or "null",
            "CommitLogMaxOffset": state.max_offset,
            "TransferSpeed(KB/s)": f"{state.transferred_byte_in_second / KIB:.2f}",
            "LastReadTime": moment_ms(state.last_read_timestamp),
            "LastWriteTime": moment_ms(state.last_write_timestamp),
            "MasterFlushOffset": state.master_flush_offset,
        }
    )


def _pairs(values: dict[str, object]) -> str:
    return "\n" + "\n".join(f"#{name}\t{value}" for name, value in values.items())
