"""Decide in a failover which slave takes over, whether messages may be lost, and the epoch of the next master. Pure."""

from staticfire.failover.replica import Replica
from staticfire.protocol.durations import format_duration
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.replication import ReplicationState
from staticfire.protocol.requests.routes import MASTER_ID

# A master answers its slaves each five seconds, also if there is nothing new; on a busy machine later.
SILENT_MS_MAX = 10_000


def next_epoch(states: list[ReplicationState]) -> int:
    """Return the epoch of the next master: higher than any that a broker of the set has or was promised."""
    begun = [epoch.epoch for state in states for epoch in state.epochs]
    return 1 + max([1, *begun, *(state.least_epoch for state in states)])


def new_master(broker: str, replicas: list[Replica], to: int | None) -> Replica:
    """Return the slave that takes over. Raises: ClientError."""
    slaves = [one for one in replicas if one.broker_id != MASTER_ID]
    if not slaves:
        raise ClientError(f"{broker} has no slave: start the cluster with --replicas 1, or Cluster(replicas=1)")
    if to is not None:
        slaves = [one for one in slaves if one.broker_id == to]
        if not slaves:
            known = ", ".join(str(one.broker_id) for one in replicas if one.broker_id != MASTER_ID)
            raise ClientError(f"{broker} has no slave with id {to}; the ids of its slaves are {known}")
    there = [one for one in slaves if one.state is not None]
    if not there:
        raise ClientError(f"no slave of {broker} answers: {slaves[0].silence}")
    return max(there, key=progress_of)


def progress_of(replica: Replica) -> tuple[int, int, int]:
    """Return what a slave has of the log, to be compared: a newer epoch counts more than more bytes.

    A slave learns of an epoch when it joins, perhaps long before it has what was stored before it. Only an epoch that
    its log has reached counts: another slave may have more of the older one, and each of those messages may be one that
    was acknowledged.
    """
    state = replica.state
    assert state is not None
    reached = [epoch.epoch for epoch in state.epochs if epoch.start_position <= state.end_position]
    return max(reached, default=0), state.end_position, -replica.broker_id


def require_whole(broker: str, slaves: list[Replica], needed: int) -> None:
    """Raise ClientError if acknowledged messages may be only on machines that don't answer."""
    whole = sum(1 for one in slaves if one.state is not None and one.state.is_whole)
    if whole < needed:
        words = f"{whole} of its slaves answer and had everything, and {needed} must, so that one has each message"
        raise ClientError(f"no slave of {broker} takes over: {words}; start the others, or use `staticfire failover`")


def those_in_sync(broker: str, slaves: list[Replica], in_sync: dict[int, str] | None) -> list[Replica]:
    """Return the slaves that have each acknowledged message, by their ids and addresses; None: any may take over.

    One that has not had everything since its start may have lost its disk. Raises: ClientError (none answers).
    """
    if in_sync is None:
        return slaves
    found = [one for one in slaves if one.broker_id in in_sync and one.state is not None and one.state.is_whole]
    if not found:
        words = (
            f"start {' or '.join(in_sync.values())}"
            if in_sync
            else "start its master, because no slave was in sync with it"
        )
        raise ClientError(
            f"no slave of {broker} takes over: all in sync acknowledge, and none of these answers and had everything; "
            f"{words}, or use `staticfire failover`"
        )
    return found


def stored_position(master: ReplicationState, target: Replica) -> int:
    """Return up to which position a slave has stored the log of its master; -1 if the slave doesn't copy it now."""
    stored = [one.stored_position for one in master.followers if one.broker_id == target.broker_id]
    return stored[0] if stored else -1


def lacks_deletions(master: ReplicationState, target: Replica) -> bool:
    """Return whether a slave doesn't know yet that topics were deleted. They would be there again."""
    return any(one.lacks_deletions for one in master.followers if one.broker_id == target.broker_id)


def not_joined(target: Replica, state: ReplicationState) -> str:
    if state.is_held:
        return f"{target.name} doesn't copy its master: {_held(target)}"
    reason = state.problem or "it has not joined it yet"
    return f"{target.name} doesn't copy its master: {reason}; wait, or let another slave take over"


def not_copied(target: Replica) -> str:
    words = f"{target.name} has the whole log, but not the topics, groups and offsets of its master"
    return f"{words}: try again, or accept the loss of the newest with --losing 0"


def _held(replica: Replica) -> str:
    return f"its copy is held: `staticfire replication release {replica.name}`"


def require_known(target: Replica, losing: int | None, accepts_loss: bool, is_silent: bool) -> None:
    """Raise ClientError if a slave may lack messages of its lost master, and that isn't accepted.

    `losing`: as a person requested. `is_silent`: whether the master doesn't answer.
    """
    if not (losing or accepts_loss):
        _require_copied(target)
    if is_silent and losing is None and not accepts_loss:
        _require_contact(target)


def _require_copied(target: Replica) -> None:
    """Raise ClientError unless `has_copied`."""
    state = target.state
    assert state is not None
    if not has_copied(target):
        raise ClientError(why_not_yet(target, max(0, state.master_end - state.end_position), "bytes, or more,", state))


def has_copied(target: Replica) -> bool:
    """Return whether a slave has all of the log that its lost master reported in its last answer."""
    state = target.state
    return state is not None and state.end_position >= state.master_end and not state.is_held


def _require_contact(target: Replica) -> None:
    """Raise ClientError unless the last answer of a lost master was shortly before the loss.

    Otherwise the master may have stored, and acknowledged, any number of messages after it.
    """
    state = target.state
    assert state is not None
    if not 0 <= state.silent_ms <= SILENT_MS_MAX:
        words = f"had no contact with its master for {format_duration(state.silent_ms // 1000 * 1000)}"
        if state.silent_ms < 0:
            words = "has copied no master since it started"
        raise ClientError(
            f"{target.name} {words}, so it is unknown what it lacks: start the master, or accept that with --losing 0"
        )


def why_not_yet(target: Replica, missing: int, what: str, state: ReplicationState) -> str:
    if state.is_held:
        advice = _held(target)
    elif state.problem:
        advice = f"it doesn't copy: {state.problem}"
    elif state.lag_ms:
        advice = f"its copy has a lag: `staticfire replication lag {target.name} 0`"
    else:
        advice = "wait until it has caught up"
    lose = f"--losing {missing}" if what == "messages" else "--losing N"
    return f"{target.name} is {missing} {what} behind its master: {advice}; or lose them with {lose}"
