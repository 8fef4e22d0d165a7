"""The client: producers, consumers, administration; asyncio, for staticfire's brokers and Apache RocketMQ's.

From the top down: no folder imports from one above it.

- `explain/`: why a group consumes nothing; `copying/`: a topic from one cluster to another; `life/`: all facts about a
  message
- `admin/`: what administrators read and change
- `push/`, `simple/`, `pull/`, `lite_pull/`: the kinds of consumers
- `consume/`: queues, listeners, popping, membership
- `produce/`: from a message to its result, and its traces
- `pop/`: messages that are popped, and acknowledged one by one; `offsets/`: a group's progress
- `settings/`: settings of consumers, allocation strategies
- `cluster/`: routes, connections and heartbeats

Names are imported when they are first used, so that `import staticfire.client` costs nothing. The same names are in
`staticfire` itself. Each name is listed three times: for type checkers (the imports), for `import *` (`__all__`) and
for Python (`_HOMES`); tests/house/test_surface.py checks that the three agree.
"""

from staticfire.protocol.lazy_names import lazy_names

TYPE_CHECKING = False  # Type checkers take it as True. Importing `typing` for it would cost more than all the rest.

if TYPE_CHECKING:
    from staticfire.client.admin.admin import Admin, BlockingAdmin
    from staticfire.client.admin.clock import ClockReport, ClusterClock
    from staticfire.client.admin.consumption import ConsumptionState, GroupConsumption
    from staticfire.client.admin.dead_letter_queue import BlockingDeadLetterQueue, DeadLetterQueue
    from staticfire.client.admin.dead_letters import DeadLetter, Death
    from staticfire.client.admin.group_view import GroupMember, GroupView, GroupWarning, HeldQueue, QueueProgress
    from staticfire.client.admin.journal import JournalRecords
    from staticfire.client.admin.look_ups import FoundMessages
    from staticfire.client.admin.resending import ResendInterrupted, ResendReport, ResendRunning
    from staticfire.client.cluster.cluster_client import ClusterClient
    from staticfire.client.cluster.pull_answers import PullResult, PullStatus
    from staticfire.client.cluster.queues import MessageQueue
    from staticfire.client.cluster.settings import ClientSettings, ProducerSettings, PullSettings
    from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Listener
    from staticfire.client.consume.results.hooks import (
        ConsumeCall,
        ConsumeReturnType,
        ConsumerHook,
        PullCall,
        RebalanceCall,
    )
    from staticfire.client.consume.results.ordered_results import OrderedContext, OrderedListener, OrderedStatus
    from staticfire.client.life.facts import LifeEvent, MessageLife
    from staticfire.client.life.gathering import message_lives
    from staticfire.client.lite_pull.lite_pull_consumer import BlockingLitePullConsumer, LitePullConsumer
    from staticfire.client.pop.popped import PoppedMessage
    from staticfire.client.produce.hooks import EndTransactionCall, ProducerHook, SendCall
    from staticfire.client.produce.producer import BlockingProducer, Producer
    from staticfire.client.produce.selectors import ByMachineRoom, ByRandom, Selector, by_hash
    from staticfire.client.produce.send_result import SendResult, SendStatus
    from staticfire.client.produce.transaction_producer import (
        BlockingTransactionProducer,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from staticfire.client.pull.pull_consumer import BlockingPullConsumer, PullConsumer
    from staticfire.client.push.push_consumer import BlockingPushConsumer, PushConsumer
    from staticfire.client.settings.allocation import (
        AVERAGELY,
        AVERAGELY_BY_CIRCLE,
        AllocateStrategy,
        Averagely,
        AveragelyByCircle,
        ByConfig,
    )
    from staticfire.client.settings.consistent_hash import ConsistentHash
    from staticfire.client.settings.lite_pull_settings import LitePullSettings
    from staticfire.client.settings.machine_rooms import (
        MachineRoom,
        MachineRoomResolver,
        NearbyMachineRoom,
        RoomPrefix,
    )
    from staticfire.client.settings.push_settings import ConsumeFromWhere, MessageModel, PushSettings
    from staticfire.client.settings.simple_settings import SimpleSettings
    from staticfire.client.simple.simple_consumer import BlockingSimpleConsumer, SimpleConsumer
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
    "ResendRunning",
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
    "message_lives",
]

_HOMES = {
    "staticfire.client.admin.admin": "Admin BlockingAdmin",
    "staticfire.client.admin.clock": "ClockReport ClusterClock",
    "staticfire.client.admin.consumption": "ConsumptionState GroupConsumption",
    "staticfire.client.admin.dead_letter_queue": "BlockingDeadLetterQueue DeadLetterQueue",
    "staticfire.client.admin.dead_letters": "DeadLetter Death",
    "staticfire.client.admin.group_view": "GroupMember GroupView GroupWarning HeldQueue QueueProgress",
    "staticfire.client.admin.journal": "JournalRecords",
    "staticfire.client.admin.look_ups": "FoundMessages",
    "staticfire.client.admin.resending": "ResendInterrupted ResendReport ResendRunning",
    "staticfire.client.cluster.cluster_client": "ClusterClient",
    "staticfire.client.cluster.pull_answers": "PullResult PullStatus",
    "staticfire.client.cluster.queues": "MessageQueue",
    "staticfire.client.cluster.settings": "ClientSettings ProducerSettings PullSettings",
    "staticfire.client.consume.results.consume_results": "ConsumeContext ConsumeStatus Listener",
    "staticfire.client.consume.results.hooks": "ConsumeCall ConsumeReturnType ConsumerHook PullCall RebalanceCall",
    "staticfire.client.consume.results.ordered_results": "OrderedContext OrderedListener OrderedStatus",
    "staticfire.client.life.facts": "LifeEvent MessageLife",
    "staticfire.client.life.gathering": "message_lives",
    "staticfire.client.lite_pull.lite_pull_consumer": "BlockingLitePullConsumer LitePullConsumer",
    "staticfire.client.pop.popped": "PoppedMessage",
    "staticfire.client.produce.hooks": "EndTransactionCall ProducerHook SendCall",
    "staticfire.client.produce.producer": "BlockingProducer Producer",
    "staticfire.client.produce.selectors": "by_hash ByMachineRoom ByRandom Selector",
    "staticfire.client.produce.send_result": "SendResult SendStatus",
    "staticfire.client.produce.transaction_producer": (
        "BlockingTransactionProducer TransactionProducer TransactionResult TransactionState"
    ),
    "staticfire.client.pull.pull_consumer": "BlockingPullConsumer PullConsumer",
    "staticfire.client.push.push_consumer": "BlockingPushConsumer PushConsumer",
    "staticfire.client.settings.allocation": (
        "AllocateStrategy Averagely AVERAGELY AVERAGELY_BY_CIRCLE AveragelyByCircle ByConfig"
    ),
    "staticfire.client.settings.consistent_hash": "ConsistentHash",
    "staticfire.client.settings.lite_pull_settings": "LitePullSettings",
    "staticfire.client.settings.machine_rooms": "MachineRoom MachineRoomResolver NearbyMachineRoom RoomPrefix",
    "staticfire.client.settings.push_settings": "ConsumeFromWhere MessageModel PushSettings",
    "staticfire.client.settings.simple_settings": "SimpleSettings",
    "staticfire.client.simple.simple_consumer": "BlockingSimpleConsumer SimpleConsumer",
    "staticfire.protocol.errors": (
        "AnswerTimeout BrokerAnswer ClientError ClockBusy ConnectFailed ConnectionLost GroupNotFound "
        "MessageIllegal NetworkError NoPermission NotAtRest ProtocolError StaticfireError StorageError "
        "SystemBusy TopicNotFound UsageError"
    ),
    "staticfire.protocol.messages": "Message ReceivedMessage",
    "staticfire.protocol.requests.connections": "ClientConnection TopicConsumption",
    "staticfire.protocol.requests.groups": "SubscriptionGroupConfig",
    "staticfire.protocol.requests.journal": "JournalRecord",
    "staticfire.protocol.requests.topics": "TopicConfig",
}
"""The names of each module."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOME_OF)
