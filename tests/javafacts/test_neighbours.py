"""A producer and a consumer of RocketMQ's client beside ours, in one namespace, with every kind of compression."""

import asyncio
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
)
from staticfire.cluster.cluster import Cluster
from tests.allocation.jars import HERE, java_command

pytestmark = [pytest.mark.row("C2"), pytest.mark.row("S6"), pytest.mark.foreign]

TOPIC = "orders"
IN_NS = ClientSettings(namespace="ns")
KINDS: tuple[Literal["lz4", "zstd", "zlib"], ...] = ("lz4", "zstd", "zlib")


async def test_they_use_plain_names_and_read_each_others_bodies(tmp_path: Path) -> None:
    compiled = await asyncio.to_thread(java_command, "Neighbour", str(tmp_path), HERE.parent / "javafacts")
    got: list[tuple[str, bytes]] = []
    all_here = asyncio.Event()
    async with Cluster() as cluster, Admin(cluster.namesrv) as admin:
        await admin.create_topic(f"ns%{TOPIC}", queues=4)
        settings = PushSettings(client=IN_NS, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer = PushConsumer("ours", cluster.namesrv, settings)
        consumer.subscribe(TOPIC)

        @consumer.listener
        async def listen(messages: tuple[object, ...], context: object) -> ConsumeStatus:
            got.extend((message.topic, message.body) for message in messages)  # type: ignore[attr-defined]
            if len(got) == 6:
                all_here.set()
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer:
            for kind, letter in zip(KINDS, (b"p", b"p", b"r"), strict=True):
                chosen = ProducerSettings(client=IN_NS, compress_type=kind)
                async with Producer("shop", cluster.namesrv, chosen) as producer:
                    await producer.send(Message(TOPIC, letter * 10_000))
            said = await asyncio.to_thread(
                subprocess.run,
                [*compiled, cluster.namesrv, "ns", TOPIC, "theirs", "6"],
                capture_output=True,
                text=True,
                check=True,
            )
            await all_here.wait()
        names = await admin.topics()
    lines = [line for line in said.stdout.splitlines() if line.partition(" ")[0] in ("sent", "got", "done", "late")]
    assert sorted(lines) == sorted(
        [
            *(f"sent {kind} {TOPIC}" for kind in ("LZ4", "ZSTD", "ZLIB")),
            *[f"got {TOPIC} 10000 j 0"] * 3,
            *[f"got {TOPIC} 10000 p 0"] * 2,
            f"got {TOPIC} 10000 r 1",
            "done",
        ]
    )
    assert sorted(got) == sorted((TOPIC, letter * 10_000) for letter in (b"p", b"p", b"r", b"j", b"j", b"j"))
    assert {"%RETRY%ns%ours", "%RETRY%ns%theirs"} <= set(names)
    assert TOPIC not in names
