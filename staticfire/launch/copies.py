"""Whether sends can ever have the copies that they wait for. Pure."""

from staticfire.broker.settings import BrokerSettings


def missing_copies(broker: BrokerSettings, replicas: int) -> str:
    """Return a warning if a broker's sends need more machines than it and its slaves are; "" otherwise."""
    if broker.broker_role != "SYNC_MASTER" or broker.enable_auto_in_sync_replicas:
        return ""
    machines = replicas + 1
    wanted = [
        ("minInSyncReplicas", broker.min_in_sync_replicas, "all sends are refused (in-sync replicas not enough)"),
        ("inSyncReplicas", broker.in_sync_replicas, "all sends wait for slaveTimeout and get FLUSH_SLAVE_TIMEOUT"),
    ]
    for name, copies, what in wanted:
        if copies > machines:
            return f"{name}={copies}: with --replicas {replicas}, a broker has {machines}; {what}"
    return ""
