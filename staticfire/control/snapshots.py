"""Save a cluster under a name and restore it, in about twenty milliseconds; clients stay connected.

Each broker keeps its own part, below its folder. A snapshot exists if every broker has a part of the same save. A save
that replaces a snapshot is pending at each broker, until all have saved their parts: if one can't, the old snapshot
remains. Fault rules are removed before a restore, since a rule may affect any of these requests. Brokers are restored
in parallel: a program that sends meanwhile may reach one broker before its restore and another after it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from staticfire.control.whole_cluster import KnownBrokers, undisturbed
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ClientError, UsageError, broker_answer
from staticfire.protocol.requests.routes import DeleteTopicInNameserver
from staticfire.protocol.requests.snapshots import (
    GetSnapshots,
    KeepSnapshot,
    RemoveSnapshot,
    RestoredAnswer,
    RestoreSnapshot,
    SaveSnapshot,
    SnapshotAnswer,
    SnapshotInfo,
    SnapshotsAnswer,
    snapshot_name_fault,
)
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import pause_between_looks

# A copy of many gigabytes takes minutes.
TIMEOUT_MS = 600_000
DISCARD_TIMEOUT_MS = 1_000
# A broker that carries out another change of snapshots refuses the next one.
BUSY_TRIES, BUSY_PAUSE_MS = 300, 100
DEFAULT_NAME = "default"


async def save(pool: ConnectionPool, brokers: Mapping[str, str], name: str = DEFAULT_NAME) -> dict[str, Any]:
    """Save the state of all brokers; return what was saved. `brokers`: name -> address.

    Raises: UsageError (invalid name), NetworkError, BrokerAnswer.
    """
    fault = snapshot_name_fault(name)
    if fault is not None:
        raise UsageError(fault)
    what = f"snapshot {name}"
    if len(brokers) == 1:
        return _shown(name, _saved_by(await _ask_all(pool, brokers.values(), SaveSnapshot(name), what)))
    replies = await _replies(pool, brokers.values(), SaveSnapshot(name, pending=True))
    parts = {address: _saved_by([reply]) for address, reply in replies.items() if isinstance(reply, Answer)}
    saved_ms = {address: infos[0].saved_ms for address, infos in parts.items() if infos}
    try:
        infos = _saved_by(_checked(replies, what))
    except BaseException:
        await _discard(pool, saved_ms, name)
        raise
    # A broker that dies now may keep its old part. Then the parts have different ids, which a restore notices.
    save_id = "-".join(str(info.saved_ms) for info in infos)
    keeping = asyncio.gather(
        *(_keep(pool, address, KeepSnapshot(name, at_ms, save_id), what) for address, at_ms in saved_ms.items())
    )
    await asyncio.shield(keeping)
    return _shown(name, infos)


def _saved_by(answers: list[Answer]) -> list[SnapshotInfo]:
    return [answer.body for answer in answers if isinstance(answer, SnapshotAnswer) and answer.body is not None]


async def _keep(pool: ConnectionPool, address: str, request: KeepSnapshot, what: str) -> None:
    """Let a broker keep its part; wait if it is busy with another snapshot. Raises: NetworkError, BrokerAnswer."""
    for _ in range(BUSY_TRIES):
        answer = await pool.ask(address, request, TIMEOUT_MS)
        if answer.code != ResponseCode.SYSTEM_BUSY:
            break
        await pause_between_looks(BUSY_PAUSE_MS)
    if answer.code != 0:
        raise broker_answer(answer.code, answer.remark, f"{what} at {address}")


async def _discard(pool: ConnectionPool, saved_ms: Mapping[str, int], name: str) -> None:
    """Remove the pending parts. The first save after an hour removes what remains, because a broker is busy, say."""
    removing = (
        pool.ask(address, RemoveSnapshot(name, at_ms), DISCARD_TIMEOUT_MS) for address, at_ms in saved_ms.items()
    )
    await asyncio.gather(*removing, return_exceptions=True)


async def restore(pool: ConnectionPool, namesrv: str, known: KnownBrokers, name: str = DEFAULT_NAME) -> dict[str, Any]:
    """Restore all brokers; return their state.

    Raises: ClientError (a broker has no master, or not the snapshot), NetworkError, BrokerAnswer.
    """
    nameservers, brokers, _ = await undisturbed(pool, namesrv, known)
    there = await _by_broker(pool, brokers)
    without = [broker for broker, infos in there.items() if name not in [info.name for info in infos]]
    if without:
        names = sorted({info.name for infos in there.values() for info in infos})
        has = f"there are {', '.join(names)}" if names else "no snapshot is saved"
        raise ClientError(f"there is no snapshot {name} on {', '.join(without)}: {has}; save one first")
    parts = {broker: info for broker, infos in there.items() for info in infos if info.name == name}
    if not _belong_together(parts.values()):
        raise ClientError(
            f"snapshot {name} has parts of different saves: {', '.join(sorted(parts))}; a save of it ended halfway, so "
            "save it once more"
        )
    answers = await _ask_all(pool, brokers.values(), RestoreSnapshot(name), f"snapshot {name}")
    bodies = [answer.body for answer in answers if isinstance(answer, RestoredAnswer)]
    there_now = {topic for body in bodies for topic in body.snapshot.topics}
    gone = sorted({topic for body in bodies for topic in body.topics_gone} - there_now)
    # A nameserver keeps a route until it gets a request to delete it.
    for topic in gone:
        await _ask_all(pool, nameservers, DeleteTopicInNameserver(topic=topic), f"route of {topic}")
    shown = _shown(name, [body.snapshot for body in bodies])
    return {**shown, "gone": gone, "queues_moved": sum(body.queues_moved for body in bodies)}


async def saved(pool: ConnectionPool, brokers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the snapshots that every broker has, sorted by name. Raises: NetworkError, BrokerAnswer."""
    there = await _by_broker(pool, brokers)
    by_name: dict[str, list[SnapshotInfo]] = {}
    for infos in there.values():
        for info in infos:
            by_name.setdefault(info.name, []).append(info)
    return [
        _shown(name, infos)
        for name, infos in sorted(by_name.items())
        if len(infos) == len(brokers) and _belong_together(infos)
    ]


def _belong_together(parts: Iterable[SnapshotInfo]) -> bool:
    """Return whether the parts of the brokers are of the same save."""
    return len({part.save_id for part in parts}) <= 1


async def remove(pool: ConnectionPool, brokers: Mapping[str, str], name: str) -> None:
    """Remove a snapshot. Raises: NetworkError, BrokerAnswer."""
    await _ask_all(pool, brokers.values(), RemoveSnapshot(name), f"snapshot {name}")


async def _by_broker(pool: ConnectionPool, brokers: Mapping[str, str]) -> dict[str, list[SnapshotInfo]]:
    answers = await _ask_all(pool, brokers.values(), GetSnapshots(), "snapshots")
    there = [answer.body if isinstance(answer, SnapshotsAnswer) and answer.body else [] for answer in answers]
    return dict(zip(brokers, there, strict=True))


async def _ask_all(pool: ConnectionPool, addresses: Iterable[str], request: Request, what: str) -> list[Answer]:
    """Query all servers at once. When all have responded, raise the first error. Raises: NetworkError, BrokerAnswer."""
    return _checked(await _replies(pool, addresses, request), what)


async def _replies(
    pool: ConnectionPool, addresses: Iterable[str], request: Request
) -> dict[str, Answer | BaseException]:
    """Query all servers at once; return the response or the error of each."""
    servers = list(addresses)
    asking = (pool.ask(address, request, TIMEOUT_MS) for address in servers)
    return dict(zip(servers, await asyncio.gather(*asking, return_exceptions=True), strict=True))


def _checked(replies: Mapping[str, Answer | BaseException], what: str) -> list[Answer]:
    """Return the responses. Raises: the first error; BrokerAnswer (a refusal)."""
    done: list[Answer] = []
    for address, answer in replies.items():
        if isinstance(answer, BaseException):
            raise answer
        if answer.code != 0:
            raise broker_answer(answer.code, answer.remark, f"{what} at {address}")
        done.append(answer)
    return done


def _shown(name: str, infos: list[SnapshotInfo]) -> dict[str, Any]:
    return {
        "name": name,
        "saved_ms": min((info.saved_ms for info in infos), default=0),
        "message_ms": max((info.message_ms for info in infos), default=0),
        "topics": sorted({topic for info in infos for topic in info.topics if not topic.startswith("%")}),
        "groups": sorted({group for info in infos for group in info.groups}),
        "messages": sum(info.messages for info in infos),
        "bytes": sum(info.size_bytes for info in infos),
    }
