"""A cluster inside this process: a nameserver and brokers on real ports, in the running event loop."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from staticfire.broker.groups.retries import SentBack
from staticfire.broker.server import Broker
from staticfire.launch.places import WantedCluster, describe_cluster
from staticfire.launch.plan import PROXY
from staticfire.launch.processes import prepare_places
from staticfire.nameserver.server import Nameserver
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.service import Service
from staticfire.runtime.tls.settings import TlsClient, TlsSettings

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

log = logger("cluster")


class EmbeddedCluster:
    """A cluster in this process, between `start` and `stop`. `stop` removes a temporary folder."""

    def __init__(self, wanted: WantedCluster) -> None:
        """Bind the ports, create the folder, check the settings. Raises: UsageError."""
        # The VIP port (10909) isn't needed here, and two clusters of one test run would compete for it.
        settings = {"vipPortEnable": "false", **wanted.settings}
        self.folder, self._ports, self.plan = prepare_places(wanted._replace(settings=settings))
        self._running = AsyncExitStack()
        self._brokers: list[Broker] = []
        self._pid: int | None = None

    @property
    def namesrv(self) -> str:
        return self.plan.namesrv

    @property
    def tls(self) -> TlsSettings:
        """The settings of TLS at its ports."""
        return self.plan.nameservers[0]

    @property
    def client_tls(self) -> TlsClient | None:
        """How clients must speak TLS; None: they may speak plain text."""
        return self.plan.client_tls

    @property
    def addresses(self) -> dict[str, str]:
        return self.plan.addresses

    @property
    def credentials(self) -> "Credentials | None":
        """The access key of the cluster's own programs."""
        return self.plan.credentials

    @property
    def replica_addresses(self) -> dict[str, str]:
        return self.plan.replica_addresses

    def describe(self) -> dict[str, Any]:
        """Return addresses, process ids and folders, ready for JSON."""
        return describe_cluster(self.plan, self.folder, self.pids)

    @property
    def pids(self) -> dict[str, int]:
        """The id of this process, for each server."""
        proxy = [] if self.plan.proxy is None else [PROXY]
        return (
            {}
            if self._pid is None
            else dict.fromkeys([*self.plan.nameserver_addresses, *self.plan.server_names, *proxy], self._pid)
        )

    @property
    def process_faults(self) -> None:
        """None: the only process is the user's, so no rule may kill or suspend it."""

    async def start(self, on_crash: Callable[[str], None]) -> None:
        """Start the nameservers, the brokers, then the gRPC endpoint, if any. Raises: UsageError, StorageError."""
        machine = live_machine(is_durable=not self.folder.temporary)
        self._pid = machine.identity.pid
        self._running.push_async_callback(machine.workers.close)
        for name, nameserver in zip(self.plan.nameserver_addresses, self.plan.nameservers, strict=True):
            await self._enter(name, Nameserver(machine, nameserver, self._ports.hand_over(name)), on_crash)
        plan = self.plan
        for name, settings in zip(plan.server_names, [*plan.brokers, *plan.replicas], strict=True):
            broker = Broker(machine, settings, self._ports.hand_over(name))
            self._brokers.append(broker)
            await self._enter(name, broker, on_crash)
        if self.plan.proxy is not None:
            from staticfire.proxy.server import Proxy  # here, since the extra needn't be installed

            proxy = Proxy(machine, self.plan.proxy, self._ports.hand_over(PROXY))
            await self._enter(PROXY, proxy, on_crash)

    async def _enter(self, name: str, service: Service, on_crash: Callable[[str], None]) -> None:
        """Start a service. Report a crash of one of its loops."""
        await self._running.enter_async_context(service)
        watch = asyncio.create_task(_watch(name, service, on_crash), name=f"watch {name}")
        self._running.callback(watch.cancel)

    def on_sent_back(self, hook: Callable[[SentBack], object]) -> Callable[[], None]:
        """Have each broker call a function before it responds to a send-back. Return a function that ends this."""

        def guarded(sent_back: SentBack) -> None:
            try:
                hook(sent_back)
            except Exception as error:  # noqa: BLE001 (a user's function: the broker continues)
                log.error("hook_failed", group=sent_back.group, error=repr(error))

        watches = [broker.tables.groups.retries for broker in self._brokers]
        for watch in watches:
            watch.consume_hooks.append(guarded)

        def end() -> None:
            for watch in watches:
                watch.consume_hooks = [one for one in watch.consume_hooks if one is not guarded]

        return end

    async def stop(self) -> None:
        """Stop the gRPC endpoint, the brokers, then the nameservers; release the ports and the temporary folder."""
        try:
            await self._running.aclose()
        finally:
            self._ports.close()
            self.folder.remove()


async def _watch(name: str, service: Service, on_crash: Callable[[str], None]) -> None:
    try:
        await service.wait()
    except Exception as error:  # noqa: BLE001 (this waits for a crash of any kind)
        on_crash(f"{name} has crashed: {type(error).__name__}: {error}")
