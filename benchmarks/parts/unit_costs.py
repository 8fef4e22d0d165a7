"""What one more broker, client or topic costs: bytes on the wire and CPU time of what grows with a cluster.

    python -m benchmarks.parts.unit_costs [--brokers 10,100,1000] [--rounds 20]

docs/scale.md multiplies these. CPU time is that of encoding and decoding, the better of all rounds; what a process does
beside that is in `make bench ARGS=--curves`.
"""

import argparse
import os
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks.machine import LOAD_CORE
from benchmarks.report import number
from staticfire.client import AVERAGELY, MessageQueue
from staticfire.protocol import requests as _declarations  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.command import Answer, Request, answer_shape, declaration_of
from staticfire.protocol.requests.brokers import RegisterBroker, RegistrationBody, TopicConfigTable
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.routes import BrokerData, QueueData, RouteAnswer, TopicRouteData
from staticfire.protocol.requests.topics import TopicConfig

QUEUES = 8
# The start of a frame: its length, then the codec and the length of the header.
HEAD_BYTES = 8


def route(brokers: int) -> RouteAnswer:
    """Return the route of a topic with queues on each broker."""
    names = [f"broker-{number}" for number in range(brokers)]
    return RouteAnswer(
        body=TopicRouteData(
            [QueueData(name, QUEUES, QUEUES, 6) for name in names],
            [BrokerData("DefaultCluster", name, {0: "10.0.0.1:10911"}) for name in names],
        )
    )


def registration(topics: int) -> RegisterBroker:
    """Return the registration of a broker with that many topics."""
    table = {f"topic-{number}": TopicConfig(f"topic-{number}", QUEUES, QUEUES, 6) for number in range(topics)}
    body = RegistrationBody(TopicConfigTable(table))
    return RegisterBroker("broker-0", "10.0.0.1:10911", "DefaultCluster", "", 0, body=body)


def heartbeat(groups: int) -> Heartbeat:
    """Return the heartbeat of a client with that many consumers of two topics each."""
    subscriptions = [SubscriptionData("orders"), SubscriptionData("%RETRY%billing")]
    consumers = [
        ConsumerData(f"group-{number}", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", subscriptions)
        for number in range(groups)
    ]
    return Heartbeat(body=HeartbeatData("10.0.0.1@1234", [], consumers))


def cost_us(work: Callable[[], object], rounds: int) -> float:
    """Return the CPU time of the fastest round."""
    times = []
    for _ in range(rounds):
        started = time.thread_time_ns()
        work()
        times.append(time.thread_time_ns() - started)
    return min(times) / 1000


def of_request(request: Request, rounds: int) -> tuple[int, float, float]:
    """Return the size, and the microseconds to encode and to decode."""
    codec = codec_for(NATIVE)
    frame = codec.encode_request(request, 1, False)
    header = int.from_bytes(frame[5:8], "big")

    def decode() -> None:
        envelope = codec.decode_envelope(frame[HEAD_BYTES : HEAD_BYTES + header])
        codec.decode_request(declaration_of(type(request)), envelope, frame[HEAD_BYTES + header :])

    return len(frame), cost_us(lambda: codec.encode_request(request, 1, False), rounds), cost_us(decode, rounds)


def of_answer(answer: Answer, rounds: int) -> tuple[int, float, float]:
    """Return the size, and the microseconds to encode and to decode."""
    codec = codec_for(NATIVE)
    frame = codec.encode_answer(answer, 1, b"")
    header = int.from_bytes(frame[5:8], "big")

    def decode() -> None:
        envelope = codec.decode_envelope(frame[HEAD_BYTES : HEAD_BYTES + header])
        codec.decode_answer(answer_shape(type(answer)), envelope, frame[HEAD_BYTES + header :])

    return len(frame), cost_us(lambda: codec.encode_answer(answer, 1, b""), rounds), cost_us(decode, rounds)


def plan_us(members: int, brokers: int, rounds: int) -> float:
    """Return the time that one member needs to compute its share of a topic."""
    queues = [
        MessageQueue("orders", f"broker-{broker}", queue_id) for broker in range(brokers) for queue_id in range(QUEUES)
    ]
    ids = [f"10.0.0.{number}@1" for number in range(members)]
    return cost_us(lambda: AVERAGELY.allocate("group", ids[0], queues, ids), rounds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="10,100,1000")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    table = Table()
    for name in ("", "bytes", "us to encode", "us to decode"):
        table.add_column(name, justify="left" if not name else "right")
    for count in map(int, arguments.brokers.split(",")):
        values = of_answer(route(count), arguments.rounds)
        table.add_row(f"route of a topic on {count:,} brokers", *map(number, values))
        values = of_request(registration(count * 10), arguments.rounds)
        table.add_row(f"registration with {count * 10:,} topics", *map(number, values))
        shared = number(plan_us(count, count, arguments.rounds))
        table.add_row(f"share of one of {count:,} members, {count * QUEUES:,} queues", "", shared, "")
    table.add_row("heartbeat with one group", *map(number, of_request(heartbeat(1), arguments.rounds)))
    table.add_row("heartbeat with 100 groups", *map(number, of_request(heartbeat(100), arguments.rounds)))
    Console().print(table)


if __name__ == "__main__":
    main()
