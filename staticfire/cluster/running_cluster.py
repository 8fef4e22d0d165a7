"""What can be done with a running cluster, from within the event loop that it lives in.

`Cluster` (which blocks) and `AsyncCluster` (which is awaited) have these methods: see cluster_calls.py. Names of
processes are `nameserver`, those of the brokers, and `proxy`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from staticfire.control.port import ControlPort
from staticfire.launch.places import PARAMETERS, WantedControl, is_whole, url_of
from staticfire.launch.plan import HOST, PROXY
from staticfire.launch.processes import ProcessCluster
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.ports import listen_on, port_of

if TYPE_CHECKING:
    from staticfire.broker.groups.retries import SentBack
    from staticfire.client import Admin, ClientConnection
    from staticfire.client.admin.group_view import GroupView
    from staticfire.client.admin.journal import JournalRecords
    from staticfire.client.copying.copier import CopyReport
    from staticfire.client.explain.explanation import Explanation
    from staticfire.launch.embedded import EmbeddedCluster
    from staticfire.runtime.pool import ConnectionPool

T = TypeVar("T")


class RunningCluster:
    """A nameserver and brokers, in processes or in a thread."""

    def __init__(self, cluster: "EmbeddedCluster | ProcessCluster", stack: AsyncExitStack) -> None:
        """`stack`: ends whatever is opened on the way."""
        self.cluster = cluster
        self._stack = stack

    # -- topics and groups ---------------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic on every broker; its route is known when this returns.

        Raises: UsageError, BrokerAnswer, NetworkError.
        """
        if not isinstance(topic, str):
            raise UsageError(f"{topic!r} is no topic's name: it is text")
        if not is_whole(queues) or queues < 1:
            raise UsageError(f"queues={queues!r}: a topic takes a whole number of queues per broker, 1 or more")
        await self._asked(lambda admin: admin.create_topic(topic, queues))

    async def members(self, group: str) -> "list[ClientConnection]":
        """Return who consumes in a group now, sorted by client id; nobody for an unknown group.

        Raises: BrokerAnswer, NetworkError.
        """
        return await self._asked(lambda admin: admin.members(group))

    async def group(self, group: str) -> "GroupView":
        """Return a group as it is: members, what each has, how far it has come, how fast it is, what is wrong.

        Raises: GroupNotFound, NetworkError.
        """
        return await self._asked(lambda admin: admin.group(group))

    async def explain(self, group: str, topic: str | None = None) -> "Explanation":
        """Return why a group doesn't consume, or that it does: `str()` of it is for people. See docs/explain.md.

        `topic`: one that it should consume, whether it subscribes to it or not. Raises: NetworkError, BrokerAnswer.
        """
        from staticfire.client.explain.explainer import explain_group

        return await self._asked(lambda admin: explain_group(admin, group, topic))

    async def journal(
        self,
        *kinds: str,
        client: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        broker: str | None = None,
    ) -> "JournalRecords":
        """Return what happened: events of these kinds, or of all, by real time; docs/journal.md has them.

        `client`: its id, or one part of it, like the instance name. Raises: UsageError, BrokerAnswer, NetworkError.
        """
        chosen = {"client": client, "group": group, "topic": topic, "broker_name": broker}
        return await self._asked(lambda admin: admin.journal(*kinds, queue_id=queue_id, **chosen))

    async def requests(
        self,
        code: str | int | None = None,
        client: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        broker: str | None = None,
    ) -> "JournalRecords":
        """Return what clients asked: requests of a code, like "PULL_MESSAGE", or all, by real time. Raises: as that."""
        return await self._asked(lambda admin: admin.requests(code, client, group, topic, queue_id, broker))

    async def dead_letters(self) -> dict[str, int]:
        """Return how many dead letters there are by group; groups without any aren't there.

        Raises: BrokerAnswer, NetworkError.
        """
        return await self._asked(lambda admin: admin.dead_letters())

    async def on_sent_back(self, hook: "Callable[[SentBack], object]") -> Callable[[], None]:
        """Have a plain function called with each message that a consumer gives back, before that is answered.

        `delay_level` is None for one that is dead then. The broker waits for the function, in its own thread; one that
        raises is logged. Returns what ends that. Raises: ClientError (the brokers are processes).
        """
        return self._brokers_here("on_sent_back").on_sent_back(hook)

    async def reset(self) -> dict[str, Any]:
        """Forget all messages, topics, groups and offsets; return which. Raises: BrokerAnswer, NetworkError."""
        from staticfire.control.reset import reset

        async with self.pool() as pool:
            return await reset(pool, self.cluster.namesrv, self.cluster.addresses.values())

    async def copy(
        self,
        source: str,
        topic: str,
        groups: "str | Sequence[str]" = (),
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        limit: int | None = None,
        protocol: str = "rocketmq",
    ) -> "CopyReport":
        """Copy a topic of another cluster, and where groups stand in it; the source is only read.

        `source`: HOST:PORT of its nameserver. `since_ms`, `until_ms`: between which times it was stored there; `limit`:
        the newest so many of each queue. What is here already isn't copied again. `protocol`: "rocketmq" for both.
        Raises: UsageError, TopicNotFound, GroupNotFound, BrokerAnswer, NetworkError.
        """
        from staticfire.client import Admin, ClientSettings
        from staticfire.client.copying.copier import CopyWish, copy_topic

        wish = CopyWish(topic, [groups] if isinstance(groups, str) else list(groups), since_ms, until_ms, limit)
        settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # one of its words, or it is refused
        async with Admin(source, settings) as there, Admin(self.cluster.namesrv) as here:
            return await copy_topic(there, here, wish)

    # -- snapshots -----------------------------------------------------------------------------------------------

    async def snapshot(self, name: str = "default") -> dict[str, Any]:
        """Put the cluster away under a name: all that `restore` puts back; return what that is. It goes on unchanged.

        A snapshot of that name is replaced. Raises: UsageError (no name), BrokerAnswer, NetworkError.
        """
        from staticfire.control.snapshots import save

        async with self.pool() as pool:
            return await save(pool, self.cluster.addresses, name)

    async def restore(self, name: str = "default") -> dict[str, Any]:
        """Put the cluster back as it was: messages, topics, groups, offsets, what waits, message time.

        Clients stay connected; consumers go on where their groups stood then. Return what there is. Raises: UsageError
        (there is no such snapshot), BrokerAnswer, NetworkError.
        """
        from staticfire.control.snapshots import restore

        async with self.pool() as pool:
            return await restore(pool, self.cluster.namesrv, self.cluster.addresses, name)

    async def snapshots(self) -> list[dict[str, Any]]:
        """Return which snapshots there are, by name. Raises: BrokerAnswer, NetworkError."""
        from staticfire.control.snapshots import saved

        async with self.pool() as pool:
            return await saved(pool, self.cluster.addresses)

    # -- processes -----------------------------------------------------------------------------------------------

    async def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, as a power cut would; return when it is gone. Raises: ClientError."""
        self._processes(name).kill(name)

    async def restart(self, name: str) -> None:
        """Start a process anew on its port and folder, stopping it first where it runs; return when it is ready.

        Raises: ClientError, UsageError, ChildFailed.
        """
        self._processes(name).restart(name)

    async def freeze(self, name: str) -> None:
        """Let a process stand still (SIGSTOP): its connections stay, and nothing is answered. Raises: ClientError."""
        self._processes(name).freeze(name)

    async def thaw(self, name: str) -> None:
        """Let a frozen process go on; without effect on others. Raises: ClientError."""
        self._processes(name).thaw(name)

    def _processes(self, name: str) -> ProcessCluster:
        """Return the processes, one of which has this name. Raises: ClientError."""
        if name not in (*self.cluster.plan.nameserver_addresses, PROXY):
            self.check_broker(name)
        if not isinstance(self.cluster, ProcessCluster):
            raise ClientError(
                f"{name} lives in a thread, which can't be killed, frozen or restarted; "
                "Cluster(isolation='process') has real processes"
            )
        return self.cluster

    def _brokers_here(self, what: str) -> "EmbeddedCluster":
        """Return the cluster if it lives in this process. Raises: ClientError."""
        if isinstance(self.cluster, ProcessCluster):
            raise ClientError(
                f"{what} needs brokers in this process: Cluster(isolation='thread'), which is the default; "
                "cluster.dlq(group).on_death(hook) looks from outside"
            )
        return self.cluster

    def check_broker(self, name: str) -> None:
        """Raise ClientError when there is no such broker."""
        if name not in self.cluster.addresses:
            raise ClientError(f"this cluster has no {name}; it has {', '.join(self.cluster.addresses)}")

    # -- connections ---------------------------------------------------------------------------------------------

    async def open_control(self, hosts: tuple[str, ...]) -> str:
        """Start the control endpoint; return its URL. `hosts`: more names that it may be asked under."""
        sock = listen_on(HOST, 0, PARAMETERS.ports)
        await self._stack.enter_async_context(ControlPort(self.cluster, sock, WantedControl(names=hosts)))
        return url_of(port_of(sock))

    @asynccontextmanager
    async def pool(self) -> "AsyncIterator[ConnectionPool]":
        """Connections of one call alone."""
        from staticfire.runtime.live import live_machine
        from staticfire.runtime.pool import ConnectionPool

        machine = live_machine()
        pool = ConnectionPool(machine)
        try:
            yield pool
        finally:
            await pool.close()
            await machine.workers.close()

    async def _asked(self, ask: "Callable[[Admin], Awaitable[T]]") -> T:
        from staticfire.client import Admin

        async with Admin(self.cluster.namesrv) as admin:
            return await ask(admin)
