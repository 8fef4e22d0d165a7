"""10,000 pulls on 1,000 connections that wait for messages: their cost while nothing happens."""

import select
import socket
import time
from contextlib import ExitStack

from benchmarks.asking import ask
from benchmarks.figures import Stand, Values
from benchmarks.frames import GROUP
from benchmarks.machine import Meter, rss_mib
from benchmarks.servers import ServerProcess, broker, wait_until_idle
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.topics import UpdateTopic

CONNECTIONS = 1000
PULLS_EACH = 10
HOLD_MS = 30_000
LOOK_SECONDS = 2.5


class Held:
    """held_10k: each pull waits for a different queue."""

    name = "held_10k"
    keys = ("held_10k_rss_mib", "held_10k_cpu_percent")

    def measure(self, stand: Stand) -> Values:
        with ExitStack() as stack:
            server = stack.enter_context(broker(stand.folder))
            for number in range(PULLS_EACH):
                ask(server.port, NATIVE, UpdateTopic(f"held-{number}", CONNECTIONS, CONNECTIONS, READ_WRITE))
            before_mib = rss_mib(server.pids[0])
            connections = [stack.enter_context(_connect(server)) for _ in range(CONNECTIONS)]
            for queue_id, connection in enumerate(connections):
                connection.sendall(_pulls(queue_id))
            wait_until_idle(server)
            meter = Meter(*server.pids)
            time.sleep(LOOK_SECONDS)
            meter.stop()
            after_mib = rss_mib(server.pids[0])
            _check_waiting(connections)
        return {
            "held_10k_rss_mib": after_mib - before_mib,
            "held_10k_cpu_percent": 100 * meter.server_s / meter.seconds,
            "held_10k_foreign": meter.foreign_cores,
        }


def _connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port))


def _pulls(queue_id: int) -> bytes:
    flags = FLAG_SUBSCRIPTION | FLAG_SUSPEND
    encode = codec_for(NATIVE).encode_request
    return b"".join(
        encode(PullMessage(GROUP, f"held-{number}", queue_id, 0, 32, flags, 0, HOLD_MS, "*"), number, False)
        for number in range(PULLS_EACH)
    )


def _check_waiting(connections: list[socket.socket]) -> None:
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    answered = poll.poll(0)
    if answered:
        first = next(one for one in connections if one.fileno() == answered[0][0])
        raise SystemExit(f"bench: held_10k: {len(answered)} connections were answered: {first.recv(200)!r}")
