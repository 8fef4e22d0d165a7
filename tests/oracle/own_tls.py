"""Our client through TLS, against a real RocketMQ: each of its ports takes TLS as well as plain text.

    python -m tests.oracle.own_tls 127.0.0.1:19876

Exit code 1: something is different from what is said here.
"""

import asyncio
import sys
import time
from dataclasses import replace

from staticfire.client import Admin, Message, Producer, ProducerSettings, PullConsumer, PullSettings
from staticfire.protocol.errors import NetworkError
from staticfire.runtime.tls.settings import TlsClient
from tests.oracle.patience import CLIENT

ENCRYPTED = replace(CLIENT, tls=True)
HOLD_MS = 5_000
"""RocketMQ makes the queue entry a moment after it has acknowledged the message."""
VERIFYING = replace(CLIENT, tls=TlsClient(auth_server=True))


async def sent_is_read(namesrv: str) -> None:
    """Send and read through TLS, from the route to the message."""
    topic = f"tls-{time.time_ns()}"
    async with Producer("tls-producers", namesrv, ProducerSettings(client=ENCRYPTED)) as producer:
        result = await producer.send(Message(topic, b"hello"))
    async with PullConsumer("tls-readers", namesrv, PullSettings(client=ENCRYPTED)) as consumer:
        found = await consumer.pull(result.queue, result.queue_offset, wait_ms=HOLD_MS)
    assert [message.body for message in found.messages] == [b"hello"], found


async def its_certificate_is_self_signed(namesrv: str) -> None:
    """A client that verifies it is told why that fails."""
    reported = ""
    try:
        async with Admin(namesrv, VERIFYING) as admin:
            await admin.topics()
    except NetworkError as error:
        reported = str(error)
    assert "it isn't signed by a CA that is trusted" in reported, reported


async def main(namesrv: str) -> int:
    for check in (sent_is_read, its_certificate_is_self_signed):
        try:
            await check(namesrv)
        except (AssertionError, NetworkError) as error:
            print(f"FAILED {check.__name__}: {error!r}")
            return 1
        print(f"{check.__name__}: as expected")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
