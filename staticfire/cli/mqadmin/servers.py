"""Commands of mqadmin that use several servers: one that fails doesn't hide the others.

Each failure is one line on stderr, and the exit code is 1 at the end. RocketMQ prints a stack trace for each, or ends
at the first one; its exit code is 0.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Self

from click.exceptions import Exit

from staticfire.cli.mqadmin.frame import ask
from staticfire.cli.mqadmin.output import show
from staticfire.cli.signing import words_of
from staticfire.protocol.errors import ClientError, NetworkError, StaticfireError, UsageError
from staticfire.protocol.requests.config import GetBrokerConfig
from staticfire.protocol.requests.connections import QueryGroupsOfTopic
from staticfire.runtime.exit_codes import EXIT_FAILED

if TYPE_CHECKING:
    from staticfire.client import Admin
    from staticfire.protocol.command import Answer, Request


def report(error: StaticfireError) -> None:
    """Print an error as one line on stderr."""
    show(f"staticfire mqadmin: {words_of(error)}", err=True)


async def at_each(servers: Iterable[str], act: Callable[[str], Awaitable[None]], changed: str = "") -> None:
    """Act at each server, also after one has failed.

    `changed`: what `act` does there, for a line that lists the servers where it succeeded, if it failed at others.
    Leave it out if `act` itself prints a line. Raises: the error of the only server; Exit, if one of several failed.
    """
    servers = list(servers)
    if len(servers) == 1:  # There are no others, and an error that reaches the caller may get a hint.
        await act(servers[0])
        return
    done = []
    for server in servers:
        try:
            await act(server)
        except UsageError:
            raise
        except StaticfireError as error:
            report(error)
        else:
            done.append(server)
    if len(done) < len(servers):
        if changed:
            show(f"staticfire mqadmin: {changed} {', '.join(done) or 'no server'}", err=True)
        raise Exit(EXIT_FAILED)


async def at_nameservers(admin: "Admin", request: "Request", changed: str) -> None:
    """Send a change to each nameserver. `changed`: for the list of those that are changed, if others fail.

    RocketMQ ends at the first nameserver that doesn't respond; here the others are changed nevertheless.
    """

    async def change(address: str) -> None:
        await ask(admin, address, request)

    await at_each(admin.client.nameservers.addresses, change, changed)


async def broker_name_at(admin: "Admin", address: str) -> str:
    """Return the name of the broker at an address, under which it needn't be registered (localhost, a port mapping).

    Raises: ClientError (it isn't registered at these nameservers), BrokerAnswer, NetworkError.
    """
    table = (await admin.cluster_info()).broker_addr_table
    for name, broker in table.items():
        if address in broker.broker_addrs.values():
            return name
    name = (await settings_at(admin, address)).get("brokerName", "")
    if name not in table:
        known = ", ".join(sorted(table)) or "none"
        raise ClientError(f"mqadmin: the broker at {address}, {name}, isn't registered; registered brokers: {known}")
    return name


async def settings_at(admin: "Admin", address: str) -> dict[str, str]:
    """Return the settings of the broker at an address. Raises: BrokerAnswer, NetworkError."""
    body: bytes = (await ask(admin, address, GetBrokerConfig())).body or b""
    return dict(line.split("=", 1) for line in body.decode().splitlines() if "=" in line)


async def repeat(admin: "Admin", interval_s: int | None, act: Callable[[], Awaitable[None]]) -> None:
    """Act once, or until Ctrl-C. Later failures are only reported, since the cluster may recover."""
    if interval_s is None:
        await act()
        return
    is_first = True
    while True:
        try:
            await act()
        except Exit:
            pass  # The failures of single servers are reported.
        except StaticfireError as error:
            if is_first:
                raise
            report(error)
        is_first = False
        await admin.pause_for(interval_s * 1_000)


class Servers:
    """The servers that a command reads. One without a response is reported once, and isn't queried again.

    As a context manager it ends with Exit if the result is incomplete.
    """

    def __init__(self, admin: "Admin") -> None:
        self.admin = admin
        self.silent: set[str] = set()
        """The addresses that haven't responded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    async def ask(self, address: str, request: "Request") -> "Answer | None":
        """Send a request; return a successful response, or None without any. Raises: BrokerAnswer."""
        if address in self.silent:
            return None
        try:
            return await ask(self.admin, address, request)
        except NetworkError as error:
            self.silent.add(address)
            report(error)
            return None

    async def groups_of(self, topic: str, addresses: Iterable[str]) -> list[str]:
        """Return the groups that consume a topic, as the first of these brokers that responds knows them."""
        for address in addresses:
            answer = await self.ask(address, QueryGroupsOfTopic(topic))
            if answer is not None:
                return sorted(answer.body.group_list) if answer.body is not None else []
        return []

    def check(self) -> None:
        """Check that all servers have responded, for example before an error that something doesn't exist.

        Raises: Exit.
        """
        if self.silent:
            raise Exit(EXIT_FAILED)
