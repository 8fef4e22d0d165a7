"""The parts of a push consumer that has started, put together: for each way to consume, the ones that belong to it."""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.consume.concurrent_consumption import ConcurrentConsumption
from staticfire.client.consume.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.consume_results import Listener
from staticfire.client.consume.consumer_state import ConsumerState
from staticfire.client.consume.held_lock import HeldLock
from staticfire.client.consume.hooked_listener import with_hooks
from staticfire.client.consume.membership import Membership
from staticfire.client.consume.ordered_consumption import OrderedConsumption
from staticfire.client.consume.ordered_policy import OrderedPolicy
from staticfire.client.consume.ordered_results import OrderedListener
from staticfire.client.consume.policy import Policy
from staticfire.client.consume.process_queue import ProcessQueue
from staticfire.client.consume.push_settings import MessageModel, PushSettings
from staticfire.client.consume.queue_driver import Driver, Listening
from staticfire.client.consume.send_back import SendBacks
from staticfire.client.offsets.local_offsets import LocalOffsets
from staticfire.client.offsets.offset_store import OffsetStore, RemoteOffsets
from staticfire.client.rebalance.assigned_queues import AssignedQueues
from staticfire.client.rebalance.rebalancer import QueuesChanged, Rebalancer
from staticfire.runtime.service import Service


class PushParts:
    """They live in the running event loop."""

    def __init__(
        self,
        service: Service,
        client: ClusterClient,
        state: ConsumerState,
        listener: Listener | OrderedListener,
        is_ordered: bool,
        queue_listeners: list[QueuesChanged],
    ) -> None:
        """`service`: whose loops they are."""
        group, settings, machine, spawn = state.group, state.settings, client.machine, service.spawn
        self.state = state
        self.offsets = offsets = offsets_of(group, client, settings)
        self.send_backs = send_backs = SendBacks(group, client, settings.retries_max)

        hooked = with_hooks(listener, group, state.hooks, state.limits, machine.clock)

        def listen(driver: Driver) -> Listening:
            if is_ordered:
                return OrderedConsumption(group, hooked, settings, machine, send_backs.give_up, driver, spawn)
            return ConcurrentConsumption(group, hooked, settings, machine, send_backs.send_back, driver, spawn)

        def make_policy(cache: ProcessQueue, lock: HeldLock | None) -> Policy:
            return OrderedPolicy(cache, lock) if is_ordered else ConcurrentPolicy(cache, group, settings, state.limits)

        is_locking = is_ordered and settings.message_model is MessageModel.CLUSTERING
        self.held = AssignedQueues(state, client, offsets, listen, make_policy, is_locking, spawn)
        sharing = Rebalancer(state, client, self.held, queue_listeners)
        self.membership = Membership(service, client, state, self.held, offsets, sharing)

    @property
    def listening(self) -> Listening:
        """The listener at work."""
        return self.held.driver.listening


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
