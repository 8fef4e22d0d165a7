"""Lock and unlock queues for ordered consumption. RocketMQ: AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ.

Behaviour
- The response lists the queues that the client holds now. It is no error if other clients hold the rest.
- Group, topic, queue and broker name are not checked, and nothing is created.
- A client that was refused a queue is notified as soon as the queue is unlocked. RocketMQ's broker doesn't notify: its
  clients try again after 500 ms.

Not done
- A broker decides alone, also when it has slaves (RocketMQ: lockInStrictMode).
"""

from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.clients import NotifyConsumerIdsChanged
from staticfire.protocol.requests.locks import LockAnswer, LockBatchResponseBody, LockQueues, UnlockQueues
from staticfire.runtime.dispatcher import Call, Dispatcher

NO_BODY = "the body of a lock request must have a consumerGroup, a clientId and a mqSet"


class LockHandlers:
    """Handles requests to lock and unlock queues."""

    def __init__(self, state: BrokerState, groups: GroupTables) -> None:
        self._state = state
        self._groups = groups
        self._locks = groups.queue_locks
        self._uptime_ms = state.machine.clock.uptime_ms

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.LOCK_BATCH_MQ, self.lock)
        dispatcher.handle(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, call: Call) -> Answer:
        """Lock queues, or renew their locks."""
        request: LockQueues = call.request
        wanted = request.body
        if wanted is None:
            return refusal(ResponseCode.SYSTEM_ERROR, NO_BODY)
        self._groups.consumers.saw_order(wanted.consumer_group, call.connection, in_order=True)
        granted = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set, self._uptime_ms())
        return LockAnswer(body=LockBatchResponseBody(granted))

    def unlock(self, call: Call) -> Answer:
        """Release locks."""
        request: UnlockQueues = call.request
        given = request.body
        if given is None:
            return refusal(ResponseCode.SYSTEM_ERROR, NO_BODY)
        waiting = self._locks.unlock(given.consumer_group, given.client_id, given.mq_set)
        if waiting:
            self._tell(given.consumer_group, waiting)
        return Answer()

    def _tell(self, group: str, client_ids: list[str]) -> None:
        """Notify members of a group to rebalance, because queues that they were refused are free now."""
        members = self._groups.consumers.consumer_table.get(group)
        config = self._groups.configs.get(group)
        allowed = config is None or config.notify_consumer_ids_changed_enable
        if members is None or not allowed or not self._state.settings.notify_consumer_ids_changed_enable:
            return
        for member in members.channel_info_table.values():
            if member.client_id in client_ids and member.connection.is_open:
                member.connection.tell(NotifyConsumerIdsChanged(group))
