"""The client: producers, consumers, administration; asyncio, for staticfire's brokers and Apache RocketMQ's.

- `produce/`: from a message to its result
- `consume/`: pulls, listeners, and what becomes of their answers; `lite_pull/`: polls instead of listeners
- `pop/`: messages taken for a while, and acknowledged one by one
- `rebalance/`: who gets which queues
- `offsets/`: how far a group has come
- `trace/`: what producers and consumers write of messages on their way
- `explain/`: why a group consumes nothing
- `life/`: all that is known of a message, put together
- `admin/`: what administrators ask of a cluster and of a client
- `copying/`: a topic from one cluster to another
- `blocking/`: the same without `await`
- `cluster/`: routes, connections and heartbeats, on which all of them stand

Names are imported when they are first asked for, so that `import staticfire.client` costs nothing. The same ones are
in `staticfire` itself. Each stands here three times, for type checkers (the imports), for `import *` (`__all__`) and
for Python (`_HOMES`); tests/house/test_surface.py holds the three together.
"""

from staticfire.protocol.lazy_names import lazy_names

TYPE_CHECKING = False  # To type checkers it is true. Importing `typing` for it would cost more than all the rest.

if TYPE_CHECKING:
    from staticfire.client.admin.admin import Admin
    from staticfire.client.admin.clock import ClockReport, ClusterClock
    from staticfire.client.admin.consumption import ConsumptionState, GroupConsumption
    from staticfire.client.admin.dead_letter_queue import DeadLetterQueue
    from staticfire.client.admin.dead_letters import DeadLetter, Death
    from staticfire.client.admin.group_view import GroupMember, GroupView, GroupWarning, HeldQueue, QueueProgress
    from staticfire.client.admin.journal import JournalRecords
    from staticfire.client.admin.look_ups import FoundMessages
    from staticfire.client.admin.resending import ResendInterrupted, ResendReport
    from staticfire.client.blocking.admin import BlockingAdmin
    from staticfire.client.blocking.dead_letter_queue import BlockingDeadLetterQueue
    from staticfire.client.blocking.lite_pull_consumer import BlockingLitePullConsumer
    from staticfire.client.blocking.producer import BlockingProducer
    from staticfire.client.blocking.pull_consumer import BlockingPullConsumer
    from staticfire.client.blocking.push_consumer import BlockingPushConsumer
    from staticfire.client.blocking.simple_consumer import BlockingSimpleConsumer
    from staticfire.client.blocking.transaction_producer import BlockingTransactionProducer
    from staticfire.client.cluster.cluster_client import ClusterClient
    from staticfire.client.cluster.queues import MessageQueue
    from staticfire.client.cluster.settings import ClientSettings, ProducerSettings, PullSettings
    from staticfire.client.consume.consume_results import ConsumeContext, ConsumeStatus, Listener
    from staticfire.client.consume.hooks import (
        ConsumeCall,
        ConsumeReturnType,
        ConsumerHook,
        PullCall,
        RebalanceCall,
    )
    from staticfire.client.consume.ordered_results import OrderedContext, OrderedListener, OrderedStatus
    from staticfire.client.consume.pull import PullConsumer
    from staticfire.client.consume.pull_answers import PullResult, PullStatus
    from staticfire.client.consume.push_consumer import PushConsumer
    from staticfire.client.consume.push_settings import ConsumeFromWhere, MessageModel, PushSettings
    from staticfire.client.life.facts import LifeEvent, MessageLife
    from staticfire.client.lite_pull.consumer import LitePullConsumer
    from staticfire.client.lite_pull.settings import LitePullSettings
    from staticfire.client.pop.popped import PoppedMessage
    from staticfire.client.pop.simple_consumer import SimpleConsumer
    from staticfire.client.pop.simple_settings import SimpleSettings
    from staticfire.client.produce.hooks import EndTransactionCall, ProducerHook, SendCall
    from staticfire.client.produce.producer import Producer
    from staticfire.client.produce.selectors import ByMachineRoom, ByRandom, Selector, by_hash
    from staticfire.client.produce.send_result import SendResult, SendStatus
    from staticfire.client.produce.transaction_producer import (
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from staticfire.client.rebalance.allocation import (
        AVERAGELY,
        AVERAGELY_BY_CIRCLE,
        AllocateStrategy,
        Averagely,
        AveragelyByCircle,
        ByConfig,
    )
    from staticfire.client.rebalance.consistent_hash import ConsistentHash
    from staticfire.client.rebalance.machine_rooms import (
        MachineRoom,
        MachineRoomResolver,
        NearbyMachineRoom,
        RoomPrefix,
    )
    from staticfire.protocol.errors import (
        AnswerTimeout,
        BrokerAnswer,
        ClientError,
        ClockBusy,
        ConnectFailed,
        ConnectionLost,
        GroupNotFound,
        MessageIllegal,
        NetworkError,
        NoPermission,
        NotAtRest,
        ProtocolError,
        StaticfireError,
        StorageError,
        SystemBusy,
        TopicNotFound,
        UsageError,
    )
    from staticfire.protocol.messages import Message, ReceivedMessage
    from staticfire.protocol.requests.connections import ClientConnection, TopicConsumption
    from staticfire.protocol.requests.groups import SubscriptionGroupConfig
    from staticfire.protocol.requests.journal import JournalRecord
    from staticfire.protocol.requests.topics import TopicConfig

__all__ = [
    "AVERAGELY",
    "AVERAGELY_BY_CIRCLE",
    "Admin",
    "AllocateStrategy",
    "AnswerTimeout",
    "Averagely",
    "AveragelyByCircle",
    "BlockingAdmin",
    "BlockingDeadLetterQueue",
    "BlockingLitePullConsumer",
    "BlockingProducer",
    "BlockingPullConsumer",
    "BlockingPushConsumer",
    "BlockingSimpleConsumer",
    "BlockingTransactionProducer",
    "BrokerAnswer",
    "ByConfig",
    "ByMachineRoom",
    "ByRandom",
    "ClientConnection",
    "ClientError",
    "ClientSettings",
    "ClockBusy",
    "ClockReport",
    "ClusterClient",
    "ClusterClock",
    "ConnectFailed",
    "ConnectionLost",
    "ConsistentHash",
    "ConsumeCall",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeReturnType",
    "ConsumeStatus",
    "ConsumerHook",
    "ConsumptionState",
    "DeadLetter",
    "DeadLetterQueue",
    "Death",
    "EndTransactionCall",
    "FoundMessages",
    "GroupConsumption",
    "GroupMember",
    "GroupNotFound",
    "GroupView",
    "GroupWarning",
    "HeldQueue",
    "JournalRecord",
    "JournalRecords",
    "LifeEvent",
    "Listener",
    "LitePullConsumer",
    "LitePullSettings",
    "MachineRoom",
    "MachineRoomResolver",
    "Message",
    "MessageIllegal",
    "MessageLife",
    "MessageModel",
    "MessageQueue",
    "NearbyMachineRoom",
    "NetworkError",
    "NoPermission",
    "NotAtRest",
    "OrderedContext",
    "OrderedListener",
    "OrderedStatus",
    "PoppedMessage",
    "Producer",
    "ProducerHook",
    "ProducerSettings",
    "ProtocolError",
    "PullCall",
    "PullConsumer",
    "PullResult",
    "PullSettings",
    "PullStatus",
    "PushConsumer",
    "PushSettings",
    "QueueProgress",
    "RebalanceCall",
    "ReceivedMessage",
    "ResendInterrupted",
    "ResendReport",
    "RoomPrefix",
    "Selector",
    "SendCall",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "SimpleSettings",
    "StaticfireError",
    "StorageError",
    "SubscriptionGroupConfig",
    "SystemBusy",
    "TopicConfig",
    "TopicConsumption",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "UsageError",
    "by_hash",
]

_HOMES = {
    "staticfire.client.produce.hooks": "EndTransactionCall ProducerHook SendCall",
    "staticfire.client.admin.group_view": "GroupMember GroupView GroupWarning HeldQueue QueueProgress",
    "staticfire.protocol.requests.journal": "JournalRecord",
    "staticfire.client.admin.consumption": "ConsumptionState GroupConsumption",
    "staticfire.client.admin.journal": "JournalRecords",
    "staticfire.client.admin.look_ups": "FoundMessages",
    "staticfire.client.blocking.dead_letter_queue": "BlockingDeadLetterQueue",
    "staticfire.client.admin.resending": "ResendInterrupted ResendReport",
    "staticfire.client.admin.dead_letter_queue": "DeadLetterQueue",
    "staticfire.client.admin.dead_letters": "DeadLetter Death",
    "staticfire.client.admin.admin": "Admin",
    "staticfire.client.admin.clock": "ClockReport ClusterClock",
    "staticfire.client.blocking.admin": "BlockingAdmin",
    "staticfire.client.blocking.lite_pull_consumer": "BlockingLitePullConsumer",
    "staticfire.client.blocking.producer": "BlockingProducer",
    "staticfire.client.blocking.pull_consumer": "BlockingPullConsumer",
    "staticfire.client.blocking.push_consumer": "BlockingPushConsumer",
    "staticfire.client.blocking.simple_consumer": "BlockingSimpleConsumer",
    "staticfire.client.blocking.transaction_producer": "BlockingTransactionProducer",
    "staticfire.client.cluster.cluster_client": "ClusterClient",
    "staticfire.client.cluster.queues": "MessageQueue",
    "staticfire.client.cluster.settings": "ClientSettings ProducerSettings PullSettings",
    "staticfire.client.consume.consume_results": "ConsumeContext ConsumeStatus Listener",
    "staticfire.client.consume.hooks": "ConsumeCall ConsumeReturnType ConsumerHook PullCall RebalanceCall",
    "staticfire.client.consume.ordered_results": "OrderedContext OrderedListener OrderedStatus",
    "staticfire.client.consume.pull": "PullConsumer",
    "staticfire.client.consume.pull_answers": "PullResult PullStatus",
    "staticfire.client.consume.push_consumer": "PushConsumer",
    "staticfire.client.consume.push_settings": "ConsumeFromWhere MessageModel PushSettings",
    "staticfire.client.life.facts": "LifeEvent MessageLife",
    "staticfire.client.lite_pull.consumer": "LitePullConsumer",
    "staticfire.client.lite_pull.settings": "LitePullSettings",
    "staticfire.client.pop.popped": "PoppedMessage",
    "staticfire.client.pop.simple_consumer": "SimpleConsumer",
    "staticfire.client.pop.simple_settings": "SimpleSettings",
    "staticfire.client.produce.producer": "Producer",
    "staticfire.client.produce.selectors": "by_hash Selector ByMachineRoom ByRandom",
    "staticfire.client.produce.send_result": "SendResult SendStatus",
    "staticfire.client.produce.transaction_producer": "TransactionProducer TransactionResult TransactionState",
    "staticfire.client.rebalance.allocation": (
        "AVERAGELY AVERAGELY_BY_CIRCLE AllocateStrategy Averagely AveragelyByCircle ByConfig"
    ),
    "staticfire.client.rebalance.consistent_hash": "ConsistentHash",
    "staticfire.client.rebalance.machine_rooms": "MachineRoom MachineRoomResolver NearbyMachineRoom RoomPrefix",
    "staticfire.protocol.errors": (
        "AnswerTimeout BrokerAnswer ClientError ClockBusy ConnectFailed ConnectionLost GroupNotFound "
        "MessageIllegal NetworkError NoPermission NotAtRest ProtocolError StaticfireError StorageError "
        "SystemBusy TopicNotFound UsageError"
    ),
    "staticfire.protocol.requests.connections": "ClientConnection TopicConsumption",
    "staticfire.protocol.messages": "Message ReceivedMessage",
    "staticfire.protocol.requests.groups": "SubscriptionGroupConfig",
    "staticfire.protocol.requests.topics": "TopicConfig",
}
"""The names of each module."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME_OF)
