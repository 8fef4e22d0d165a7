"""A cluster inside this process: a nameserver and brokers on real ports, in the running event loop."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from staticfire.broker.groups.retries import SentBack
from staticfire.broker.server import Broker
from staticfire.launch.places import WantedCluster, describe_cluster
from staticfire.launch.plan import PROXY
from staticfire.launch.processes import prepare_places
from staticfire.nameserver.server import Nameserver
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.runtime.service import Service

log = logger("cluster")


class EmbeddedCluster:
    """Runs between `start` and `stop`; the folder is gone afterwards if it was temporary."""

    def __init__(self, wanted: WantedCluster) -> None:
        """Bind the ports, make the folder, check the settings. Raises: UsageError."""
        # Nobody asked for port 10909 here, and two clusters of one test run would fight for theirs.
        settings = {"vipPortEnable": "false", **wanted.settings}
        self.folder, self._ports, self.plan = prepare_places(replace(wanted, settings=settings))
        self._running = AsyncExitStack()
        self._brokers: list[Broker] = []
        self._pid: int | None = None

    @property
    def namesrv(self) -> str:
        return self.plan.namesrv

    @property
    def addresses(self) -> dict[str, str]:
        return self.plan.addresses

    def describe(self) -> dict[str, Any]:
        """Return what there is, ready for JSON."""
        return describe_cluster(self.plan, self.folder, self.pids)

    @property
    def pids(self) -> dict[str, int]:
        """This process, for everybody."""
        proxy = [] if self.plan.proxy is None else [PROXY]
        return (
            {}
            if self._pid is None
            else dict.fromkeys([*self.plan.nameserver_addresses, *self.addresses, *proxy], self._pid)
        )

    @property
    def process_faults(self) -> None:
        """There is one process, and it isn't the cluster's to kill."""

    async def start(self, on_crash: Callable[[str], None]) -> None:
        """Start the nameservers, the brokers, then the gRPC endpoint, if any. Raises: UsageError, StorageError."""
        machine = live_machine(is_durable=not self.folder.temporary)
        self._pid = machine.identity.pid
        self._running.push_async_callback(machine.workers.close)
        for name, nameserver in zip(self.plan.nameserver_addresses, self.plan.nameservers, strict=True):
            await self._enter(name, Nameserver(machine, nameserver, self._ports.hand_over(name)), on_crash)
        for settings in self.plan.brokers:
            name = settings.broker_name
            broker = Broker(machine, settings, self._ports.hand_over(name))
            self._brokers.append(broker)
            await self._enter(name, broker, on_crash)
        if self.plan.proxy is not None:
            from staticfire.proxy.server import Proxy  # here, since the extra needn't be installed

            proxy = Proxy(machine, self.plan.proxy, self._ports.hand_over(PROXY))
            await self._enter(PROXY, proxy, on_crash)

    async def _enter(self, name: str, service: Service, on_crash: Callable[[str], None]) -> None:
        """Start a service, and tell when one of its loops crashes."""
        await self._running.enter_async_context(service)
        watch = asyncio.create_task(_watch(name, service, on_crash), name=f"watch {name}")
        self._running.callback(watch.cancel)

    def on_sent_back(self, hook: Callable[[SentBack], object]) -> Callable[[], None]:
        """Have each broker call a function before it answers a send-back; return what ends that."""

        def guarded(sent_back: SentBack) -> None:
            try:
                hook(sent_back)
            except Exception as error:  # noqa: BLE001 (a program's own function: the broker goes on)
                log.error("hook_failed", group=sent_back.group, error=repr(error))

        watches = [broker.state.retries for broker in self._brokers]
        for watch in watches:
            watch.consume_hooks.append(guarded)

        def end() -> None:
            for watch in watches:
                watch.consume_hooks = [one for one in watch.consume_hooks if one is not guarded]

        return end

    async def stop(self) -> None:
        """Stop the gRPC endpoint, the brokers, then the nameservers; let go of the ports and the temporary folder."""
        try:
            await self._running.aclose()
        finally:
            self._ports.close()
            self.folder.remove()


async def _watch(name: str, service: Service, on_crash: Callable[[str], None]) -> None:
    try:
        await service.wait()
    except Exception as error:  # noqa: BLE001 (a crash of any kind is what this waits for)
        on_crash(f"{name} has crashed: {type(error).__name__}: {error}")
