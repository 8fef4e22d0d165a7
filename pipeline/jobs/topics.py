"""Which of the wanted topics exist."""

import asyncio
from collections.abc import Sequence

from staticfire.client import Admin, ClientSettings


def topics_there(name_server: str, protocol: str, topics: Sequence[str]) -> list[str]:
    """Return those of the topics that exist, in the given order. Raises: NetworkError, UsageError."""
    return asyncio.run(_topics_there(name_server, protocol, topics))


async def _topics_there(name_server: str, protocol: str, topics: Sequence[str]) -> list[str]:
    """List all topics, since a route proves nothing: a nameserver has one for %RETRY% topics before they exist, too."""
    settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]  # checked there
    async with Admin(name_server, settings) as admin:
        known = set(await admin.topics())
    return [topic for topic in topics if topic in known]
