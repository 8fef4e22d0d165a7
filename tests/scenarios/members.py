"""Members of groups that send single requests: their notifications, and the list of members."""

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.requests.clients import (
    ConsumerData,
    GetConsumerList,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    UnregisterClient,
)
from staticfire.protocol.requests.locks import LockQueues, MessageQueue, QueuesOfClient, UnlockQueues
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.pool import ConnectionPool
from tests.scenarios.stand import Stand


class Member:
    """One client of a group, and the notifications that it received."""

    def __init__(self, stand: Stand, name: str) -> None:
        self.stand = stand
        self.name = name
        self.reported: list[str] = []
        self.pool = self._new_pool()

    def _new_pool(self) -> ConnectionPool:
        dispatcher = Dispatcher()
        dispatcher.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._note)
        return ConnectionPool(self.stand.world.machine(self.name, f"10.0.1.{ord(self.name[-1])}"), dispatcher)

    def _note(self, call: Call) -> None:
        self.reported.append(call.request.consumer_group)

    async def heartbeat(
        self, group: str = "billing", topics: tuple[str, ...] = ("orders",), **data: object
    ) -> HeartbeatAnswer:
        consumer = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", None, [SubscriptionData(t) for t in topics])
        for name, value in data.items():
            setattr(consumer, name, value)
        body = HeartbeatData(
            client_id=self.name, consumer_data_set=[consumer], producer_data_set=[ProducerData("CLIENT_INNER_PRODUCER")]
        )
        answer = await self.pool.ask(self.stand.brokers["broker-a"], Heartbeat(body=body))
        assert isinstance(answer, HeartbeatAnswer)
        return answer

    async def lock(self, *queue_ids: int) -> None:
        await self.stand.ask(self.stand.brokers["broker-a"], LockQueues(body=self._queues(queue_ids)))

    async def unlock(self, *queue_ids: int) -> None:
        await self.stand.ask(self.stand.brokers["broker-a"], UnlockQueues(body=self._queues(queue_ids)))

    def _queues(self, queue_ids: tuple[int, ...]) -> QueuesOfClient:
        return QueuesOfClient("billing", self.name, [MessageQueue("orders", "broker-a", one) for one in queue_ids])

    async def ids(self, group: str = "billing") -> list[str]:
        answer = await self.stand.ask(self.stand.brokers["broker-a"], GetConsumerList(group))
        return answer.body.consumer_id_list if answer.code == 0 else []

    async def goodbye(self, group: str = "billing") -> None:
        goodbye = UnregisterClient(client_id=self.name, consumer_group=group)
        assert (await self.pool.ask(self.stand.brokers["broker-a"], goodbye)).code == 0

    async def lose_connection(self) -> None:
        """Close the connection without unregistering. The next heartbeat connects again."""
        await self.pool.close()
        self.pool = self._new_pool()
        await self.stand.world.run_for(ms=5)
