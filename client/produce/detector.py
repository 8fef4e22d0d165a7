"""Checks whether unreachable brokers respond again. RocketMQ: LatencyFaultToleranceImpl.startDetector."""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.routes import address_to_write
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.client.produce.destinations import Destinations
from staticfire.protocol.errors import BrokerAnswer, StaticfireError

ROUND_MS = 3_000


class Detector:
    """Queries each of these brokers for the end of a queue. Any response means that the broker can be reached."""

    def __init__(self, client: ClusterClient, destinations: Destinations, settings: ProducerSettings) -> None:
        self._client = client
        self._destinations = destinations
        self._interval_ms = settings.detect_interval_ms
        self._questions = QueueOffsets(client, settings.detect_timeout_ms)

    async def loop(self) -> None:
        """Check the brokers that are due, every 3 s."""
        while True:
            await self._client.pause_for(ROUND_MS)
            uptime_ms = self._client.machine.clock.uptime_ms()
            for broker_name in self._destinations.faults.to_look_at(self._interval_ms, uptime_ms):
                await self._look_at(broker_name)

    async def _look_at(self, broker_name: str) -> None:
        queue = self._destinations.queue_on(broker_name)
        if queue is not None and address_to_write(self._client.routes.addresses, broker_name) is not None:
            try:
                await self._questions.max_offset(queue)
            except BrokerAnswer:
                pass  # An error response: the broker can be reached. RocketMQ's detector takes it for no response.
            except StaticfireError:
                return
        self._destinations.faults.reached(broker_name)
