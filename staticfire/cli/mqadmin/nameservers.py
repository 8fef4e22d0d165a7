"""`staticfire mqadmin`: the key-value table of nameservers, and whether producers see a broker."""

from typing import TYPE_CHECKING

from staticfire.cli.mqadmin.frame import AdminSession, ask, command, option
from staticfire.cli.mqadmin.output import show
from staticfire.cli.mqadmin.servers import at_each, at_nameservers
from staticfire.protocol.errors import ClientError, StaticfireError
from staticfire.protocol.requests.routes import AddWritePerm, DeleteKVConfig, PutKVConfig, WipeWritePerm

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.protocol.command import Answer

namespace_flag = option("-s", "--namespace", required=True, metavar="NAMESPACE", help="The namespace.")
key_flag = option("-k", "--key", required=True, metavar="NAME", help="The key.")
broker_name_flag = option("-b", "--brokerName", "broker", required=True, metavar="NAME", help="The broker.")


@command("updateKvConfig")
@namespace_flag
@key_flag
@option("-v", "--value", required=True, metavar="TEXT", help="The value.")
def update_kv_config(session: AdminSession, namespace: str, key: str, value: str) -> None:
    """Store a value on all nameservers."""

    async def work(admin: "Admin") -> None:
        await at_nameservers(admin, PutKVConfig(namespace=namespace, key=key, value=value), "the value is stored at")
        show("create or update kv config to namespace success.")

    session.run(work)


@command("deleteKvConfig")
@namespace_flag
@key_flag
def delete_kv_config(session: AdminSession, namespace: str, key: str) -> None:
    """Remove a value from all nameservers."""

    async def work(admin: "Admin") -> None:
        await at_nameservers(admin, DeleteKVConfig(namespace=namespace, key=key), "the value is removed at")
        show("delete kv config from namespace success.")

    session.run(work)


@command("wipeWritePerm")
@broker_name_flag
def wipe_write_perm(session: AdminSession, broker: str) -> None:
    """Remove the write permission of a broker.

    Its topics lose the write permission at all nameservers of -n. They get it back with addWritePerm, or when the
    broker registers with a change of its topics.
    """

    async def work(admin: "Admin") -> None:
        await _known(admin, broker)

        async def wipe(address: str) -> None:
            answer = await _permission(admin, address, WipeWritePerm(broker), "wipe")
            show(f"{_words('wipe', broker, address)} OK, {answer.wipe_topic_count}")  # type: ignore[attr-defined]

        await at_each(admin.client.nameservers.addresses, wipe)

    session.run(work)


@command("addWritePerm")
@broker_name_flag
def add_write_perm(session: AdminSession, broker: str) -> None:
    """Restore the write permission of a broker."""

    async def work(admin: "Admin") -> None:
        await _known(admin, broker)

        async def add(address: str) -> None:
            answer = await _permission(admin, address, AddWritePerm(broker), "add")
            show(f"{_words('add', broker, address)} OK, {answer.add_topic_count}")  # type: ignore[attr-defined]

        await at_each(admin.client.nameservers.addresses, add)

    session.run(work)


async def _permission(admin: "Admin", address: str, request: WipeWritePerm | AddWritePerm, verb: str) -> "Answer":
    """Send the request to a nameserver. If it fails, print that on stdout, too, as RocketMQ does."""
    try:
        return await ask(admin, address, request)
    except StaticfireError:
        show(f"{_words(verb, request.broker_name, address)} Failed")
        raise


def _words(verb: str, broker: str, address: str) -> str:
    return f"{verb} write perm of broker[{broker}] in name server[{address}]"


async def _known(admin: "Admin", broker: str) -> None:
    """Check that a broker is registered. For an unknown one, nameservers would respond 0, without an error.

    Raises: ClientError.
    """
    names = sorted((await admin.cluster_info()).broker_addr_table)
    if broker not in names:
        raise ClientError(
            f"mqadmin: no broker {broker} is registered; registered brokers: {', '.join(names) or 'none'}"
        )
