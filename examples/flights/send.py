"""Sends every flight until a broker has acknowledged it, whatever happens to the brokers meanwhile."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from data import Flight, to_message

from staticfire.client import Producer

GROUP = "flights-sender"
CHUNK = 1_000
SENDERS = 4
# Chunks in flight at once: while one waits for a broker that doesn't answer, the others continue.


@dataclass
class Sent:
    """What was acknowledged: the checksum of each flight's body, by its key."""

    checksums: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    """Sends that failed and were made again; each may be stored twice."""
    flights: int = 0


async def send_all(namesrv: str, flights: Iterable[Flight], progress: Callable[[int], None]) -> Sent:
    """Send the flights; `progress` gets the number of newly acknowledged ones."""
    sent, source = Sent(), iter(flights)
    async with Producer(GROUP, namesrv) as producer, asyncio.TaskGroup() as senders:
        for _ in range(SENDERS):
            senders.create_task(_send_chunks(producer, source, sent, progress))
    return sent


async def _send_chunks(
    producer: Producer, source: Iterator[Flight], sent: Sent, progress: Callable[[int], None]
) -> None:
    while flights := list(islice(source, CHUNK)):
        sent.flights += len(flights)
        while flights:
            flights = await _send(producer, flights, sent, progress)
            sent.repeated += len(flights)


async def _send(producer: Producer, flights: list[Flight], sent: Sent, progress: Callable[[int], None]) -> list[Flight]:
    """Send once; return the flights that no broker has acknowledged."""
    results = await producer.send_many(map(to_message, flights), return_exceptions=True)
    failed = []
    for flight, result in zip(flights, results, strict=True):
        if isinstance(result, Exception):
            failed.append(flight)
        else:
            sent.checksums[flight.key] = zlib.crc32(flight.body)
    progress(len(flights) - len(failed))
    return failed
