"""Which of the wanted topics exist, and which have appeared since."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from staticfire.client import Admin, ClientSettings
from staticfire.pipeline.jobs.settings import IngestSettings
from staticfire.pipeline.options import SourceOptions, parse_options
from staticfire.protocol.errors import ClientError, StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.client_machine import client_machine


def topics_of(settings: IngestSettings) -> tuple[str, ...]:
    """Return the topics to read. Dead letter topics are included only if they exist.

    Raises: UsageError (an option), ClientError (a topic doesn't exist, or none does), NetworkError.
    """
    options = parse_options(settings.source_options(settings.all_topics), {})
    there = topics_there(options, settings.all_topics)
    for topic in settings.topics:
        if topic not in there:
            raise ClientError(f"there is no topic {topic} at {options.name_server}; create it, or give another one")
    if not there:
        raise ClientError(f"{', '.join(settings.dead_letters_of)} has no dead letters at {options.name_server} so far")
    return tuple(there)


def topics_there(options: SourceOptions, topics: Sequence[str]) -> list[str]:
    """Return those of the topics that exist, in the given order. `options`: how to connect to the cluster.

    Raises: NetworkError, UsageError.
    """
    return asyncio.run(_topics_there(options, topics))


async def _topics_there(options: SourceOptions, topics: Sequence[str]) -> list[str]:
    """List all topics, since a route proves nothing: a nameserver has one for %RETRY% topics before they exist, too."""
    machine = client_machine(options.tls)
    settings = ClientSettings(protocol=options.protocol, access_key=options.access_key, secret_key=options.secret_key)
    try:
        async with Admin(options.name_server, settings, machine) as admin:
            known = set(await admin.topics())
    finally:
        await machine.workers.close()
    return [topic for topic in topics if topic in known]


class NewDeadLetters:
    """Finds the dead letter topics that appear while a continuous ingest runs."""

    def __init__(self, settings: IngestSettings, topics: tuple[str, ...], uptime_ms: Callable[[], UptimeMs]) -> None:
        self.topics = topics
        """The topics to read."""
        self._settings = settings
        self._uptime_ms = uptime_ms
        self._next_ms = uptime_ms()

    def came(self) -> bool:
        """Return whether there are more topics to read now. Query the cluster at most once per interval."""
        settings, now_ms = self._settings, self._uptime_ms()
        if not settings.continuous or now_ms < self._next_ms or set(settings.dead_letter_topics) <= set(self.topics):
            return False
        self._next_ms = UptimeMs(now_ms + settings.trigger_ms)
        before = self.topics
        # The running query decides how long it waits for the cluster, and reports a topic that is gone.
        with suppress(StaticfireError):
            now = topics_of(settings)
            self.topics = now if set(now) > set(before) else before
        return self.topics != before
