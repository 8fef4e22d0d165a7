"""Masters and slaves as lines for people and as objects for programs."""

from typing import Any

import msgspec

from staticfire.failover.replica import Replica
from staticfire.protocol.durations import format_duration
from staticfire.protocol.requests.routes import MASTER_ID


def line_of(replica: Replica, replicas: list[Replica]) -> dict[str, Any]:
    """Return the columns of one broker. `replicas`: all, so that a slave is compared with its master."""
    state = replica.state
    shown: dict[str, Any] = {"name": replica.name, "address": replica.address}
    if state is None:
        return {**shown, "role": "?", "epoch": "", "end": "", "behind": "", "in sync": "", "note": "doesn't answer"}
    shown |= {"role": state.role, "epoch": state.epochs[-1].epoch if state.epochs else "", "end": state.end_position}
    if replica.broker_id == MASTER_ID:
        return {**shown, "behind": "", "in sync": "", "note": _note_of_master(replica)}
    behind, in_sync = _behind(replica, replicas)
    return {**shown, "behind": behind, "in sync": in_sync, "note": _note_of_slave(replica)}


def _note_of_master(replica: Replica) -> str:
    assert replica.state is not None
    state = replica.state
    if state.waits_for_failover:
        return f"it lost messages: staticfire failover {replica.broker_name}"
    ids = [str(follower.broker_id) for follower in state.followers]
    words = f"copied by {', '.join(ids)}" if ids else "no slave copies it"
    if state.all_in_sync_acknowledge:
        return f"{words}; sends wait for all in sync"
    return f"{words}; sends wait for {state.copies} copies" if state.copies > 1 else words


def _note_of_slave(replica: Replica) -> str:
    state = replica.state
    assert state is not None
    if state.is_held:
        return "held"
    if state.problem:
        return state.problem
    return f"lag {format_duration(state.lag_ms)}" if state.lag_ms else f"copies {state.master_address}"


def _behind(replica: Replica, replicas: list[Replica]) -> tuple[str, str]:
    """Return how far a slave is behind its master, in bytes, and whether it is in sync."""
    master = next(
        (one for one in replicas if one.broker_name == replica.broker_name and one.broker_id == MASTER_ID), None
    )
    assert replica.state is not None
    if master is None or master.state is None:
        return str(max(0, replica.state.master_end - replica.state.end_position)), "?"
    behind = max(0, master.state.end_position - replica.state.end_position)
    follower = next((one for one in master.state.followers if one.broker_id == replica.broker_id), None)
    return str(behind), "yes" if follower is not None and follower.in_sync else "no"


def object_of(replica: Replica, replicas: list[Replica]) -> dict[str, Any]:
    """Return one broker for JSON."""
    shown: dict[str, Any] = {
        "name": replica.name,
        "broker": replica.broker_name,
        "id": replica.broker_id,
        "address": replica.address,
        "answers": replica.state is not None,
    }
    if replica.state is None:
        return {**shown, "problem": replica.silence}
    state = replica.state
    shown |= {
        "role": state.role,
        "epochs": msgspec.to_builtins(state.epochs),
        "minPosition": state.min_position,
        "endPosition": state.end_position,
        "problem": state.problem,
    }
    if replica.broker_id == MASTER_ID:
        return {
            **shown,
            "slaves": msgspec.to_builtins(state.followers),
            "copiesAwaited": state.copies,
            "allInSyncAcknowledge": state.all_in_sync_acknowledge,
            "waitsForFailover": state.waits_for_failover,
        }
    behind, in_sync = _behind(replica, replicas)
    return {
        **shown,
        "master": state.master_address,
        "behindBytes": int(behind),
        "inSync": in_sync == "yes",
        "held": state.is_held,
        "lagMs": state.lag_ms,
        "stateAgeMs": state.state_age_ms,
    }
