"""Gather a cluster's data about consumption: topics with an ingest, journals and offsets with requests to the brokers.

This works for an Apache RocketMQ, too. It keeps no journal, so only traces and offsets are available there.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from staticfire.client import Admin, ClientSettings
from staticfire.pipeline.consumption.gaps import write_gaps
from staticfire.pipeline.consumption.journals import ASK_TIMEOUT_MS, NewRecords, read_journal
from staticfire.pipeline.consumption.noted import Progress, write_progress
from staticfire.pipeline.consumption.settings import JOURNAL, MESSAGES, PROGRESS, ConsumptionSettings
from staticfire.pipeline.jobs.settings import IngestSettings
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, ClientError
from staticfire.protocol.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    dead_letter_topic,
    is_system_group,
    is_system_topic,
    retry_topic,
)
from staticfire.protocol.requests.journal import STARTED
from staticfire.protocol.requests.statistics import GetConsumeStats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from staticfire.pipeline.jobs.ingest import Batch


@dataclass(frozen=True, slots=True)
class Noticed:
    """The state of a cluster, as far as it is wanted."""

    topics: tuple[str, ...]
    """The topics to read: those of users, retries, waiting messages and traces."""
    groups: tuple[str, ...]
    has_traces: bool
    journal_faults: tuple[str, ...] = ()
    """Brokers without a journal, with the reasons."""
    dead_letters: tuple[str, ...] = ()
    """The existing dead letter topics of these groups. They are read, too."""
    stand: tuple[object, ...] = ()
    """The positions in journals and the groups' offsets. Equal if nothing was recorded and nothing consumed."""


class Gathered(NamedTuple):
    """What brokers reported, before it is written."""

    noticed: Noticed
    journals: tuple[NewRecords, ...]
    progress: list[Progress]

    def write(self, settings: ConsumptionSettings) -> None:
        """Add the records to the folder, and write the groups' offsets."""
        lost = {journal.path.name: journal.write() for journal in self.journals}
        write_progress(Path(settings.place(PROGRESS)), self.progress)
        write_gaps(settings, self.noticed.journal_faults, lost)


def notice(settings: ConsumptionSettings) -> Noticed:
    """Return the state of the cluster, and write the brokers' records. Raises: ClientError, NetworkError."""
    gathered = query(settings)
    gathered.write(settings)
    return gathered.noticed


def query(settings: ConsumptionSettings) -> Gathered:
    """Return the state of the cluster, and write nothing. Raises: ClientError, NetworkError."""
    return asyncio.run(_query(settings))


def check(settings: ConsumptionSettings) -> None:
    """Raise what `query` would raise. Only a few records of each journal are read."""
    asyncio.run(_query(settings, kinds=STARTED))


async def _query(settings: ConsumptionSettings, kinds: str | None = None) -> Gathered:
    client = ClientSettings(protocol=settings.protocol)  # type: ignore[arg-type]  # checked there
    async with Admin(settings.name_server, client) as admin:
        info = await admin.cluster_info()
        own = {*info.broker_addr_table, *info.cluster_addr_table}
        found = choose(settings, await admin.topics(), own)
        masters = await admin.masters()
        faults: list[str] = []
        journals: list[NewRecords] = []
        for name, address in masters.items():
            try:
                journals += await read_journal(admin, name, address, Path(settings.place(JOURNAL)), kinds)
            except BrokerAnswer as answer:
                faults.append(f"{name}: {answer.remark or answer}")
        if len(faults) == len(masters) and not found.has_traces:
            raise ClientError(
                f"there is no topic {settings.trace_topic} at {settings.name_server}, and no broker keeps a journal, "
                "so it is unknown which messages were consumed; turn tracing on in the consumers (enable_trace=True, "
                "RocketMQ: enableMsgTrace)"
            )
        progress = await _progress(admin, masters, found.groups)
    stand = (*((journal.path.name, journal.last_number) for journal in journals), *progress)
    noticed = replace(found, journal_faults=tuple(faults), stand=stand)
    return Gathered(noticed, tuple(journals), progress)


def choose(settings: ConsumptionSettings, there: list[str], own: set[str]) -> Noticed:
    """Return the wanted topics of a cluster. `own`: topic names that brokers and clusters use themselves.

    Raises: ClientError (a named topic doesn't exist).
    """
    known = set(there)
    has_traces = settings.trace_topic in known
    if settings.is_trace_wanted and not has_traces:
        raise ClientError(
            f"there is no trace topic {settings.trace_topic} at {settings.name_server}: no client has traced to it; "
            "give another one (--trace-topic), or turn tracing on in the clients (enable_trace=True, RocketMQ: "
            "enableMsgTrace)"
        )
    for topic in settings.topics:
        if topic not in known:
            raise ClientError(f"there is no topic {topic} at {settings.name_server}; create it, or give another one")
    groups = settings.groups or tuple(
        topic.removeprefix(RETRY_PREFIX) for topic in there if topic.startswith(RETRY_PREFIX)
    )
    groups = tuple(group for group in groups if not is_system_group(group))
    topics = settings.topics or tuple(topic for topic in there if _is_somebodys(topic, own))
    if not topics:
        raise ClientError(f"there are only RocketMQ's own topics at {settings.name_server}; send a message first")
    more = [topic for group in groups if (topic := retry_topic(group)) in known]
    more += [topic for topic in (SCHEDULE_TOPIC, settings.trace_topic) if topic in known]
    dead = [topic for group in groups if (topic := dead_letter_topic(group)) in known]
    return Noticed((*topics, *more), groups, has_traces, dead_letters=tuple(dead))


def _is_somebodys(topic: str, own: set[str]) -> bool:
    is_of_a_group = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return not (is_of_a_group or is_system_topic(topic, own) or topic.endswith("_REPLY_TOPIC"))


async def _progress(admin: Admin, masters: dict[str, str], groups: tuple[str, ...]) -> list[Progress]:
    rows: list[Progress] = []
    for group in groups:
        for address in masters.values():
            answer = await admin.client.pool.ask(address, GetConsumeStats(group), ASK_TIMEOUT_MS)
            if answer.code != SUCCESS or answer.body is None:
                continue
            for queue, offset in answer.body.offset_table.items():
                rows.append(
                    (group, queue.topic, queue.broker_name, queue.queue_id, offset.consumer_offset,
                     offset.broker_offset)
                )  # fmt: skip
    return rows


def ingest_settings(settings: ConsumptionSettings, noticed: Noticed, is_continuous: bool = False) -> IngestSettings:
    """Return the settings of the ingest: what it reads from the cluster, and where it writes."""
    return IngestSettings(
        noticed.topics,
        settings.place(MESSAGES),
        settings.name_server,
        dead_letters_of=noticed.groups,
        partition_by=("topic",),
        continuous=is_continuous,
        trigger_ms=settings.trigger_ms,
        protocol=settings.protocol,
    )


def gather(
    spark: "SparkSession", settings: ConsumptionSettings, on_batch: "Callable[[Batch], None] | None" = None
) -> Noticed:
    """Get all data that exists now. Raises: ClientError, NetworkError, what Spark raises."""
    from staticfire.pipeline.jobs.ingest import ingest
    from staticfire.pipeline.jobs.lock import CONSUMPTION_LOCK_NAME, folder_lock

    gathered = query(settings)
    # It refuses another cluster than that of the folder. Then records of both must not be mixed, either.
    ingest(spark, ingest_settings(settings, gathered.noticed), on_batch)
    with folder_lock(spark, CONSUMPTION_LOCK_NAME, settings.folder):
        gathered.write(settings)
    return gathered.noticed
