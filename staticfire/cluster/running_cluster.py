"""Operations on a running cluster. They run inside the cluster's event loop.

`Cluster` (which blocks) and `AsyncCluster` (which is awaited) have these methods: see cluster_calls.py. The names of
processes are `nameserver`, the names of the brokers, and `proxy`.
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
from staticfire.runtime.tls.settings import ENFORCING

if TYPE_CHECKING:
    from staticfire.broker.groups.retries import SentBack
    from staticfire.client import Admin, ClientConnection, ClientSettings
    from staticfire.client.admin.access import AccessAdmin
    from staticfire.client.admin.group_view import GroupView
    from staticfire.client.admin.journal import JournalRecords
    from staticfire.client.copying.copier import CopyReport
    from staticfire.client.explain.explanation import Explanation
    from staticfire.cluster.access_copy import AccessCopy
    from staticfire.control.whole_cluster import KnownBrokers
    from staticfire.failover.replicas import Failover, ReplicaAdmin
    from staticfire.launch.embedded import EmbeddedCluster
    from staticfire.runtime.pool import ConnectionPool

T = TypeVar("T")


class RunningCluster:  # house: a few lines for each operation of a cluster
    """A nameserver and brokers, in processes or in a thread."""

    def __init__(self, cluster: "EmbeddedCluster | ProcessCluster", stack: AsyncExitStack) -> None:
        """`stack`: closes everything that is opened later."""
        self.cluster = cluster
        self._stack = stack
        self._kept_pool: ConnectionPool | None = None
        self.hook_ends: dict[Callable[[], object], None] = {}
        """What ends the hooks that the program has given: one function for each that hasn't ended."""

    # -- topics and groups ---------------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic on every broker. When this returns, the nameserver has its route.

        Raises: UsageError, BrokerAnswer, NetworkError.
        """
        if not isinstance(topic, str):
            raise UsageError(f"{topic!r} is not the name of a topic: it must be a str")
        if not is_whole(queues) or queues < 1:
            raise UsageError(f"queues={queues!r}: the number of queues per broker must be a whole number of at least 1")
        await self._with_admin(lambda admin: admin.create_topic(topic, queues))

    async def members(self, group: str) -> "list[ClientConnection]":
        """Return the clients that consume in a group now, sorted by client id; an empty list for an unknown group.

        Raises: BrokerAnswer, NetworkError.
        """
        return await self._with_admin(lambda admin: admin.members(group))

    async def group(self, group: str) -> "GroupView":
        """Return the state of a group: members, their queues, offsets and rates, and warnings.

        Raises: GroupNotFound, NetworkError.
        """
        return await self._with_admin(lambda admin: admin.group(group))

    async def explain(self, group: str, topic: str | None = None) -> "Explanation":
        """Return the reasons why a group doesn't consume, or that it does. `str()` gives a text. See docs/explain.md.

        `topic`: a topic that the group should consume, even if it doesn't subscribe to it.
        Raises: NetworkError, BrokerAnswer.
        """
        from staticfire.client.explain.explainer import explain_group

        return await self._with_admin(lambda admin: explain_group(admin, group, topic, self.cluster.addresses))

    async def journal(
        self,
        *kinds: str,
        client: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        broker: str | None = None,
    ) -> "JournalRecords":
        """Return the recorded events, of these kinds or of all kinds, in real-time order. See docs/journal.md.

        `client`: a client id, or one part of it, such as the instance name.
        Raises: UsageError, BrokerAnswer, NetworkError.
        """
        return await self._with_admin(
            lambda admin: admin.journal(
                *kinds, client=client, group=group, topic=topic, queue_id=queue_id, broker_name=broker
            )
        )

    async def requests(
        self,
        code: str | int | None = None,
        client: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        broker: str | None = None,
    ) -> "JournalRecords":
        """Return the requests of clients, with a code like "PULL_MESSAGE" or with any, in real-time order.

        Raises: as `journal`.
        """
        return await self._with_admin(lambda admin: admin.requests(code, client, group, topic, queue_id, broker))

    async def dead_letters(self) -> dict[str, int]:
        """Return the number of dead letters by group, without the groups that have none.

        Raises: BrokerAnswer, NetworkError.
        """
        return await self._with_admin(lambda admin: admin.dead_letters())

    async def on_sent_back(self, hook: "Callable[[SentBack], object]") -> Callable[[], None]:
        """Call a plain function with each message that a consumer sends back, before the broker responds to it.

        `delay_level` is None for a message that becomes a dead letter. The broker waits for the function, which runs
        in the broker's thread; an exception of the function is logged. Return a function that ends this.
        Raises: ClientError (the brokers are processes).
        """
        end_at_brokers = self._brokers_here("on_sent_back").on_sent_back(hook)

        def end() -> None:
            self.hook_ends.pop(end, None)
            end_at_brokers()

        self.hook_ends[end] = None
        return end

    async def end_hooks(self) -> None:
        """Call no hook of the program any more: for the next test."""
        for end in list(self.hook_ends):
            end()

    async def reset(self) -> dict[str, Any]:
        """Delete all messages, topics, groups and offsets; return which. Fault rules end, and slaves copy again.

        Raises: ClientError (a broker has no master), BrokerAnswer, NetworkError.
        """
        from staticfire.control.reset import reset

        async with self.pool() as pool:
            return await reset(pool, self.cluster.namesrv, self._known_brokers)

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
        """Copy a topic of another cluster, and the offsets of groups in it. The source is only read.

        `source`: HOST:PORT of its nameserver. `since_ms`, `until_ms`: copy only messages stored between these times.
        `limit`: copy at most this many messages of each queue, the newest. Messages that were copied before aren't
        copied again. `protocol`: that of the source; "rocketmq" works for staticfire as a source, too.
        Raises: UsageError, TopicNotFound, GroupNotFound, BrokerAnswer, NetworkError.
        """
        from staticfire.client import Admin, ClientSettings
        from staticfire.client.copying.copier import CopyWish, copy_topic

        wish = CopyWish(topic, [groups] if isinstance(groups, str) else list(groups), since_ms, until_ms, limit)
        settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # one of its words, or it is refused
        async with Admin(source, settings) as there, Admin(self.cluster.namesrv, self.client_settings) as here:
            return await copy_topic(there, here, wish)

    # -- snapshots -----------------------------------------------------------------------------------------------

    async def snapshot(self, name: str = "default") -> dict[str, Any]:
        """Save the state of the cluster under a name; return what was saved. `restore` puts all of it back.

        The cluster itself doesn't change. A snapshot with the same name is replaced.
        Raises: UsageError (invalid name), BrokerAnswer, NetworkError.
        """
        from staticfire.control.snapshots import save

        async with self.pool() as pool:
            return await save(pool, await self._masters(pool), name)

    async def restore(self, name: str = "default") -> dict[str, Any]:
        """Restore the saved state: messages, topics, groups, offsets, waiting messages, message time.

        Clients stay connected; consumers continue at the offsets of the snapshot. Return what was restored.
        Raises: ClientError (there is no such snapshot, or a broker has no master), BrokerAnswer, NetworkError.
        """
        from staticfire.control.snapshots import restore

        async with self.pool() as pool:
            return await restore(pool, self.cluster.namesrv, self._known_brokers, name)

    async def snapshots(self) -> list[dict[str, Any]]:
        """Return the existing snapshots, sorted by name. Raises: BrokerAnswer, NetworkError."""
        from staticfire.control.snapshots import saved

        async with self.pool() as pool:
            return await saved(pool, await self._masters(pool))

    # -- replication ---------------------------------------------------------------------------------------------

    async def failover(self, broker: str, to: int | None = None, losing: int | None = None) -> "Failover":
        """Let a slave of a broker become the master; return what was lost. See docs/replication.md.

        `to`: the id of the slave; default: the one with most of the log. `losing`: the new master doesn't have the
        last messages, this many; without it, a failover that would lose messages is refused.
        Raises: ClientError, BrokerAnswer, NetworkError.
        """
        async with self._replicas() as replicas:
            return await replicas.failover(broker, to, losing)

    async def replication(self) -> "list[dict[str, Any]]":
        """Return all masters and slaves: which one a slave copies, how far, in sync or not. Raises: NetworkError."""
        from staticfire.client.admin.replica_view import object_of

        async with self._replicas() as replicas:
            found = await replicas.all()
        return [object_of(one, found) for one in found]

    async def hold_copy(self, address: str) -> None:
        """Let the slave at an address copy nothing more. Raises: BrokerAnswer, NetworkError."""
        await self._control_copy(address, hold=True)

    async def release_copy(self, address: str) -> None:
        """Let the slave at an address copy again, without a lag. Raises: BrokerAnswer, NetworkError."""
        await self._control_copy(address, hold=False, lag_ms=0)

    async def delay_copy(self, address: str, lag_ms: int) -> None:
        """Let the slave at an address store messages later than its master. Raises: BrokerAnswer, NetworkError."""
        await self._control_copy(address, lag_ms=lag_ms)

    async def _control_copy(self, address: str, **change: Any) -> None:
        from staticfire.protocol.requests.replication import ControlReplication

        async with self._replicas() as replicas:
            await replicas.control_at(address, ControlReplication(**change))

    @asynccontextmanager
    async def _replicas(self) -> "AsyncIterator[ReplicaAdmin]":
        from staticfire.failover.replicas import ReplicaAdmin

        async with self.pool() as pool:
            yield ReplicaAdmin.at_nameservers(pool, self.cluster.namesrv)

    async def _masters(self, pool: "ConnectionPool") -> dict[str, str]:
        """Return the addresses of the brokers that accept changes. Raises: ClientError, NetworkError."""
        from staticfire.control.whole_cluster import masters_of

        return await masters_of(pool, self.cluster.namesrv, self._known_brokers)

    @property
    def _known_brokers(self) -> "KnownBrokers":
        from staticfire.control.whole_cluster import KnownBrokers

        return KnownBrokers(self.cluster.addresses, bool(self.cluster.replica_addresses))

    # -- processes -----------------------------------------------------------------------------------------------

    async def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, like a power cut. Return when it has ended. Raises: ClientError."""
        self._processes(name).kill(name)

    async def restart(self, name: str) -> None:
        """Restart a process with the same port and folder: stop it if it runs, start it, return when it is ready.

        For a nameserver: when the brokers that run are registered there, too.
        Raises: ClientError, UsageError, ChildFailed.
        """
        processes = self._processes(name)
        processes.restart(name)
        await self._brokers_back(processes, [name])

    async def freeze(self, name: str) -> None:
        """Suspend a process (SIGSTOP): its connections stay open, but it sends no responses. Raises: ClientError."""
        self._processes(name).freeze(name)

    async def thaw(self, name: str) -> None:
        """Resume a suspended process. No effect on one that isn't suspended. Raises: ClientError."""
        self._processes(name).thaw(name)

    async def run_all(self) -> None:
        """Let all processes run, whatever has suspended or ended them: for the next test. No effect in a thread.

        Raises: UsageError, ChildFailed.
        """
        if isinstance(self.cluster, ProcessCluster):
            await self._brokers_back(self.cluster, self.cluster.run_all())

    async def _brokers_back(self, processes: ProcessCluster, restarted: Sequence[str]) -> None:
        """If a nameserver was restarted, wait until clients find the brokers there."""
        from staticfire.launch.brokers_back import brokers_back

        async with self.kept_pool() as pool:
            await brokers_back(pool, processes, restarted)

    def _processes(self, name: str) -> ProcessCluster:
        """Return the cluster's processes; `name` must be one of them. Raises: ClientError."""
        if name not in (*self.cluster.plan.nameserver_addresses, PROXY):
            self.check_broker(name)
        if not isinstance(self.cluster, ProcessCluster):
            raise ClientError(
                f"{name} runs in a thread, which can't be killed, frozen or restarted; use Cluster(isolation='process')"
            )
        return self.cluster

    def _brokers_here(self, what: str) -> "EmbeddedCluster":
        """Return the cluster if it lives in this process. Raises: ClientError."""
        if isinstance(self.cluster, ProcessCluster):
            raise ClientError(
                f"{what} needs brokers in this process: use Cluster(isolation='thread'), which is the default; or "
                "cluster.dlq(group).on_death(hook), which works with all clusters"
            )
        return self.cluster

    def check_broker(self, name: str) -> None:
        """Check that there is such a broker. Raises: ClientError."""
        names = self.cluster.plan.server_names
        if name not in names:
            raise ClientError(f"this cluster has no {name}; it has {', '.join(names)}")

    # -- connections ---------------------------------------------------------------------------------------------

    async def open_control(self, hosts: tuple[str, ...]) -> str:
        """Start the control endpoint; return its URL. `hosts`: more host names under which it accepts requests."""
        sock = listen_on(HOST, 0, PARAMETERS.ports)
        await self._stack.enter_async_context(ControlPort(self.cluster, sock, WantedControl(names=hosts)))
        return url_of(port_of(sock), is_tls=self.cluster.tls.tls_server_mode == ENFORCING)

    @property
    def client_settings(self) -> "ClientSettings":
        """The settings of a client that may do everything here."""
        from staticfire.client import ClientSettings

        return ClientSettings.signing(self.cluster.credentials, self.cluster.client_tls)

    @asynccontextmanager
    async def pool(self) -> "AsyncIterator[ConnectionPool]":
        """Open connections for one call only."""
        from staticfire.runtime.client_machine import client_machine
        from staticfire.runtime.pool import ConnectionPool

        machine = client_machine(self.cluster.client_tls)
        pool = ConnectionPool(machine, credentials=self.cluster.credentials)
        try:
            yield pool
        finally:
            await pool.close()
            await machine.workers.close()

    @asynccontextmanager
    async def kept_pool(self) -> "AsyncIterator[ConnectionPool]":
        """Use connections that stay open until the cluster stops: to open one costs a broker more than a call."""
        if self._kept_pool is None:
            self._kept_pool = await self._stack.enter_async_context(self.pool())
        yield self._kept_pool

    @asynccontextmanager
    async def access(self) -> "AsyncIterator[AccessAdmin]":
        """Open connections for one change of users or policies."""
        from staticfire.client import Admin
        from staticfire.client.admin.access import AccessAdmin

        async with Admin(self.cluster.namesrv, self.client_settings) as admin:
            yield AccessAdmin(admin)

    async def access_copy(self) -> "AccessCopy":
        """Return what brokers store about users, to be compared with a later copy.

        Raises: ClientError (a broker has no master), BrokerAnswer, NetworkError.
        """
        from staticfire.cluster.access_copy import access_copy

        async with self.kept_pool() as pool:
            return await access_copy(pool, await self._masters(pool))

    async def _with_admin(self, call: "Callable[[Admin], Awaitable[T]]") -> T:
        from staticfire.client import Admin

        async with Admin(self.cluster.namesrv, self.client_settings) as admin:
            return await call(admin)
