"""The parts of a push consumer that has started, put together: for each way to consume, the ones that belong to it."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.subscriptions import Subscriptions
from staticfire.client.consume.concurrent_consumption import ConcurrentConsumption
from staticfire.client.consume.consume_results import Listener
from staticfire.client.consume.locked_queues import LockedQueues
from staticfire.client.consume.ordered_consumption import OrderedConsumption
from staticfire.client.consume.ordered_queue import OrderedQueue
from staticfire.client.consume.ordered_results import OrderedListener
from staticfire.client.consume.pull_loop import PullContext
from staticfire.client.consume.push_settings import MessageModel, PushSettings
from staticfire.client.consume.send_back import SendBacks
from staticfire.client.consume.worker_pool import Spawn
from staticfire.client.offsets.local_offsets import LocalOffsets
from staticfire.client.offsets.offset_store import OffsetStore, RemoteOffsets
from staticfire.client.rebalance.assigned_queues import AssignedQueues
from staticfire.client.rebalance.rebalancer import Rebalancer

Pause = Callable[[int], Coroutine[Any, Any, None]]


class PushParts:
    """They live in the running event loop."""

    def __init__(
        self,
        group: str,
        client: ClusterClient,
        settings: PushSettings,
        subscriptions: Subscriptions,
        listener: Listener | OrderedListener,
        is_ordered: bool,
        spawn: Spawn,
        pause: Pause,
    ) -> None:
        self.offsets = offsets = offsets_of(group, client, settings)
        self.send_backs = SendBacks(group, client, settings)
        self.consumption = consumption = (
            OrderedConsumption(
                *(group, cast(OrderedListener, listener), settings, client.machine, offsets),
                *(self.send_backs.give_up, spawn),
            )
            if is_ordered
            else ConcurrentConsumption(
                *(group, cast(Listener, listener), settings, client.machine, offsets),
                *(self.send_backs.send_back, spawn),
            )
        )
        self.pulls = PullContext(
            group, client, settings, subscriptions, offsets, consumption.submit, consumption.settle, spawn
        )
        if is_ordered:
            self.pulls.new_queue = OrderedQueue
        is_locking = is_ordered and settings.message_model is MessageModel.CLUSTERING
        table = LockedQueues if is_locking else AssignedQueues
        self.held = table(self.pulls, pause, client.rebalancing.wake)
        self.sharing = Rebalancer(group, client, settings, subscriptions, self.held, self.pulls.flow)


def offsets_of(group: str, client: ClusterClient, settings: PushSettings) -> OffsetStore:
    """Return where a consumer keeps its offsets.

    Those of BROADCASTING lie in a folder that is the same after a restart: DEFAULT isn't replaced in its name.
    """
    if settings.message_model is MessageModel.CLUSTERING:
        return RemoteOffsets(group, client, settings)
    names = client.settings
    unit = f"@{names.unit_name}" if names.unit_name else ""
    who = f"{names.client_ip or client.machine.identity.host_ip}@{names.instance_name}{unit}"
    return LocalOffsets(client.machine, f"{settings.local_offset_store_dir}/{who}/{group}")
