"""Looks for some stored messages at the end of a run, by unique id and by key, as people do."""

from typing import NamedTuple

from staticfire.client import Admin
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.checkers.events import LookedUp, QueuePlace
from staticfire.simulation.runs.cluster import NAMESRV, OBSERVER, RunCluster
from staticfire.simulation.runs.sending import NAME_PROPERTY
from staticfire.simulation.world.chance import source_of_chance

# The maximum number of messages that a run looks for: each look-up is a few requests to each broker.
MESSAGES_MAX = 40


class StoredMessage(NamedTuple):
    """A message in the topic of its program."""

    name: str
    topic: str
    message_id: str
    has_key: bool
    """Whether its name is one of its keys."""


async def look_up(cluster: RunCluster, stored: list[StoredMessage]) -> None:
    """Look for some of the messages; record the results."""
    if len(stored) > MESSAGES_MAX:
        stored = source_of_chance(cluster.world.seed, "look-ups").sample(stored, MESSAGES_MAX)
    async with Admin(NAMESRV, machine=cluster.world.machine(OBSERVER)) as admin:
        for message in stored:
            await _look_up(cluster, admin, message, message.message_id, "")
            if message.has_key:
                await _look_up(cluster, admin, message, message.name, message.topic)


async def _look_up(cluster: RunCluster, admin: Admin, message: StoredMessage, text: str, topic: str) -> None:
    found: tuple[tuple[str, QueuePlace, int], ...] = ()
    try:
        answer = await admin.find(text, topic or None)
        found = tuple(
            (one.get(NAME_PROPERTY) or "", (one.broker_name, one.record.topic, one.queue_id), one.queue_offset)
            for one in answer
        )
        problem = "; ".join(answer.gaps)
    except StaticfireError as error:
        problem = f"{type(error).__name__}: {error}"
    cluster.record.note(LookedUp(cluster.now_ms, message.name, text, topic, found, problem))
