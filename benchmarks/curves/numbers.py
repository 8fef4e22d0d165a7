"""More topics, connections, groups, members, delayed messages on one broker."""

import time
from contextlib import ExitStack

from benchmarks import frames
from benchmarks.curves.curve import Curve
from benchmarks.curves.filling import create_topics, new_folder, run_ring
from benchmarks.figures import Stand, Values
from benchmarks.load import LoadConnection, LoadWindow, run_through, run_window
from benchmarks.machine import Meter, anonymous_mib
from benchmarks.servers import ServerProcess, broker_in, wait_until_idle
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData

TOPIC = "curve"
IN_FLIGHT = 64
MESSAGES = 32
STORED_PER_QUEUE = 2_048
DELAYED_PER_REQUEST = 100
DELAYED_BODY = bytes(128)


def _topics(count: int, stand: Stand) -> Values:
    names = [f"{TOPIC}-{number}" for number in range(count)]
    with new_folder(stand) as folder:
        with broker_in(folder) as server:
            empty_mib = anonymous_mib(server.pids[0])
            created = time.perf_counter()
            create_topics(server, names)
            created_s = time.perf_counter() - created
            ring = [
                frames.sends(NATIVE, names[number % count], 1)[0] for number in range(max(count, frames.RING_FRAMES))
            ]
            send_all(server, ring)
            wait_until_idle(server)
            # By now each topic has a message, and its queue a file.
            window = run_ring(server, [ring], IN_FLIGHT, stand.seconds)
            memory_mib = anonymous_mib(server.pids[0]) - empty_mib
        with broker_in(folder) as again:
            pass
    return {
        "send_cpu_us": window.cpu_us_per_answer,
        "send_per_s": window.per_s,
        "create_us": created_s * 1e6 / count,
        "memory_mib": memory_mib,
        "start_ms": again.ready_ms,
    }


def _connections(count: int, stand: Stand) -> Values:
    with new_folder(stand) as folder, ExitStack() as stack:
        server = stack.enter_context(broker_in(folder))
        create_topics(server, [TOPIC])
        empty_mib = anonymous_mib(server.pids[0])
        ring = frames.sends(NATIVE, TOPIC, frames.QUEUES)
        connections = [LoadConnection(server.port, NATIVE, ring, number) for number in range(count)]
        for connection in connections:
            stack.callback(connection.close)
        run_through(server, connections, 1)
        connected_mib = anonymous_mib(server.pids[0]) - empty_mib
        window = run_window(server, connections, max(1, IN_FLIGHT // count), stand.seconds)
    return {
        "send_cpu_us": window.cpu_us_per_answer,
        "send_per_s": window.per_s,
        "memory_mib": connected_mib,
    }


def _groups(count: int, stand: Stand) -> Values:
    """Measure groups that each read the topic once, all at the same time."""
    with new_folder(stand) as folder, broker_in(folder) as server:
        create_topics(server, [TOPIC])
        stored = frames.manys(NATIVE, TOPIC, MESSAGES, STORED_PER_QUEUE * frames.QUEUES // MESSAGES)
        send_all(server, stored)
        rings = [
            frames.pulls(NATIVE, TOPIC, MESSAGES, STORED_PER_QUEUE, group=f"group-{number}") for number in range(count)
        ]
        turns = [frame for turn in zip(*rings, strict=True) for frame in turn]
        connection = LoadConnection(server.port, NATIVE, turns)
        window = run_through(server, [connection], IN_FLIGHT // 8)
        connection.close()
    return {
        "pull_cpu_us": window.cpu_us_per_answer / MESSAGES,
        "delivered_per_s": window.per_s * MESSAGES,
    }


def _members(count: int, stand: Stand) -> Values:
    """Measure members of a group that join one by one, each on its own connection, and then send heartbeats."""
    encode = codec_for(NATIVE).encode_request
    with new_folder(stand) as folder, ExitStack() as stack:
        server = stack.enter_context(broker_in(folder))
        create_topics(server, [TOPIC])
        connections = []
        for number in range(count):
            heartbeat = encode(Heartbeat(body=_heartbeat(f"member-{number}")), 1, False)
            connections.append(LoadConnection(server.port, NATIVE, [heartbeat]))
            stack.callback(connections[-1].close)
        meter, started = Meter(*server.pids), time.perf_counter()
        for connection in connections:
            connection.send(1)
            while not connection.receive():
                pass
        meter.stop()
        joined_s, joined_us = time.perf_counter() - started, meter.server_s * 1e6
        wait_until_idle(server)
        window = run_through(server, connections, 1)
    return {
        "join_us": joined_us / count,
        "all_joined_ms": joined_s * 1000,
        "heartbeat_cpu_us": window.cpu_us_per_answer,
    }


def _heartbeat(client_id: str) -> HeartbeatData:
    subscription = SubscriptionData(TOPIC, sub_version=1)
    consumer = ConsumerData(
        "curve-group", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [subscription]
    )
    return HeartbeatData(client_id, [], [consumer])


def _delayed(count: int, stand: Stand) -> Values:
    """Measure delayed messages. They are stored as fast as the broker accepts them; none falls due meanwhile."""
    ring = frames.manys(NATIVE, TOPIC, DELAYED_PER_REQUEST, body=DELAYED_BODY, delay="DELAY\x0118\x02")
    with new_folder(stand) as folder:
        with broker_in(folder) as server:
            create_topics(server, [TOPIC])
            send_all(server, ring[:1])
            before_mib = anonymous_mib(server.pids[0])
            window = send_all(server, ring, count // DELAYED_PER_REQUEST)
            pending_mib = anonymous_mib(server.pids[0]) - before_mib
        with broker_in(folder) as again:
            pass
    return {
        "delayed_cpu_us": window.cpu_us_per_answer / DELAYED_PER_REQUEST,
        "delayed_bytes": max(0.0, pending_mib) * 2**20 / count,
        "start_ms": again.ready_ms,
    }


def send_all(server: ServerProcess, ring: list[bytes], count: int = 0) -> LoadWindow:
    connection = LoadConnection(server.port, NATIVE, ring)
    window = run_through(server, [connection], 4, count)
    connection.close()
    return window


_SENDS = {"send_cpu_us": "broker's CPU, us per send", "send_per_s": "sends/s"}
NUMBERS = [
    Curve(
        "topics", "topics of four queues, messages for all of them in turn", (10, 1_000, 10_000),
        {**_SENDS, "create_us": "us to create one", "memory_mib": "MiB of memory",
         "start_ms": "ms of the next start"},
        _topics,
    ),
    Curve(
        "connections", "connections that send", (10, 1_000, 5_000),
        {**_SENDS, "memory_mib": "MiB of memory"}, _connections,
    ),
    Curve(
        "groups", "groups that read one topic", (1, 10, 100),
        {"pull_cpu_us": "broker's CPU, us per message delivered", "delivered_per_s": "messages delivered/s"}, _groups,
    ),
    Curve(
        "members", "members of one group", (10, 100, 1_000),
        {
            "join_us": "broker's CPU, us per join", "all_joined_ms": "ms until all have joined, one by one",
            "heartbeat_cpu_us": "us per heartbeat then",
        },
        _members,
        note="Each join notifies all members; those of a large group in turns, once for all joins meanwhile.",
    ),
    Curve(
        "delayed", "delayed messages that wait", (10_000, 100_000, 1_000_000),
        {
            "delayed_cpu_us": "broker's CPU, us to store one", "delayed_bytes": "bytes of memory each",
            "start_ms": "ms of the next start",
        },
        _delayed,
    ),
]  # fmt: skip
