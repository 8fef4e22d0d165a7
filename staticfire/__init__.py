"""A RocketMQ cluster on the test stand.

    from staticfire import Cluster, Message, Producer

Whatever a program needs is here: the cluster, clients, settings, strategies, errors. Importing this loads nothing else:
a name's module is loaded when the name is first asked for.

- `cluster.py`, `async_cluster.py`: `Cluster` for tests and programs, blocking and awaited; `running_cluster.py`: what
  both can do; `cluster_calls.py`: how they get there
- `cluster_clock.py`: its message time; `cluster_dead_letters.py`: the dead letters of a group
- `plan.py`: what a cluster consists of; `places.py`: the ports and folders that it takes
- `processes.py`: a cluster of processes; `embedded.py`: one in this process
- `container_health.py`: whether the servers of a container are ready
- `cli/`: the command line; `control/`: the control endpoint
- links to the packages beneath: `pipeline/`, `faults/`, `nameserver/`, `broker/`, `client/`, `runtime/`, `protocol/`
"""

TYPE_CHECKING = False  # To type checkers it is true. Importing `typing` for it would cost more than all the rest.

if TYPE_CHECKING:
    from staticfire.async_cluster import AsyncCluster
    from staticfire.client import (
        AVERAGELY,
        AVERAGELY_BY_CIRCLE,
        Admin,
        AllocateStrategy,
        AnswerTimeout,
        Averagely,
        AveragelyByCircle,
        BlockingAdmin,
        BlockingDeadLetterQueue,
        BlockingLitePullConsumer,
        BlockingProducer,
        BlockingPullConsumer,
        BlockingPushConsumer,
        BlockingTransactionProducer,
        BrokerAnswer,
        ByConfig,
        ClientConnection,
        ClientError,
        ClientSettings,
        ClockBusy,
        ClockReport,
        ClusterClient,
        ClusterClock,
        ConnectFailed,
        ConnectionLost,
        ConsistentHash,
        ConsumeCall,
        ConsumeContext,
        ConsumeFromWhere,
        ConsumeReturnType,
        ConsumerHook,
        ConsumeStatus,
        DeadLetter,
        DeadLetterQueue,
        Death,
        GroupMember,
        GroupNotFound,
        GroupView,
        GroupWarning,
        HeldQueue,
        JournalRecord,
        JournalRecords,
        Listener,
        LitePullConsumer,
        LitePullSettings,
        MachineRoom,
        MachineRoomResolver,
        Message,
        MessageIllegal,
        MessageModel,
        MessageQueue,
        NearbyMachineRoom,
        NetworkError,
        NoPermission,
        NotAtRest,
        OrderedContext,
        OrderedListener,
        OrderedStatus,
        Producer,
        ProducerSettings,
        ProtocolError,
        PullCall,
        PullConsumer,
        PullResult,
        PullSettings,
        PullStatus,
        PushConsumer,
        PushSettings,
        QueueProgress,
        RebalanceCall,
        ReceivedMessage,
        ResendInterrupted,
        ResendReport,
        RoomPrefix,
        Selector,
        SendResult,
        SendStatus,
        StaticfireError,
        StorageError,
        SubscriptionGroupConfig,
        SystemBusy,
        TopicConfig,
        TopicConsumption,
        TopicNotFound,
        TransactionProducer,
        TransactionResult,
        TransactionState,
        UsageError,
        by_hash,
    )
    from staticfire.cluster import Cluster

__all__ = [
    "AVERAGELY",
    "AVERAGELY_BY_CIRCLE",
    "Admin",
    "AllocateStrategy",
    "AnswerTimeout",
    "AsyncCluster",
    "Averagely",
    "AveragelyByCircle",
    "BlockingAdmin",
    "BlockingDeadLetterQueue",
    "BlockingLitePullConsumer",
    "BlockingProducer",
    "BlockingPullConsumer",
    "BlockingPushConsumer",
    "BlockingTransactionProducer",
    "BrokerAnswer",
    "ByConfig",
    "ClientConnection",
    "ClientError",
    "ClientSettings",
    "ClockBusy",
    "ClockReport",
    "Cluster",
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
    "DeadLetter",
    "DeadLetterQueue",
    "Death",
    "GroupMember",
    "GroupNotFound",
    "GroupView",
    "GroupWarning",
    "HeldQueue",
    "JournalRecord",
    "JournalRecords",
    "Listener",
    "LitePullConsumer",
    "LitePullSettings",
    "MachineRoom",
    "MachineRoomResolver",
    "Message",
    "MessageIllegal",
    "MessageModel",
    "MessageQueue",
    "NearbyMachineRoom",
    "NetworkError",
    "NoPermission",
    "NotAtRest",
    "OrderedContext",
    "OrderedListener",
    "OrderedStatus",
    "Producer",
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
    "SendResult",
    "SendStatus",
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

_HOMES = {"AsyncCluster": "staticfire.async_cluster", "Cluster": "staticfire.cluster"}
"""All other names are the client's."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES.get(name, "staticfire.client")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
