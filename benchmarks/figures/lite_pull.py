"""A program that polls: messages per second, from a broker that has all of them, in its own process."""

import os

from benchmarks.consuming import consumer_process
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import PULLED_PER_QUEUE, TOPIC, WARM_SECONDS, fill
from benchmarks.frames import QUEUES
from benchmarks.machine import Meter, cpu_ns
from benchmarks.servers import broker, nameserver
from staticfire.protocol.codecs import NATIVE


class LitePull:
    """lite_pull_per_s: a LitePullConsumer polls 1 KiB messages, 32 at a time, repeatedly."""

    name = "lite_pull"
    keys = ("lite_pull_per_s",)

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            fill(server, NATIVE)
            with consumer_process("poll", names.address, TOPIC) as consumer:
                consumer.ask(f"{PULLED_PER_QUEUE * QUEUES} {WARM_SECONDS}")
                meter = Meter(*server.pids, consumer.pid, os.getpid())
                consumer_ns, broker_ns = cpu_ns(consumer.pid), sum(map(cpu_ns, server.pids))
                polled = consumer.ask(f"{PULLED_PER_QUEUE * QUEUES} {stand.seconds}")
                meter.stop()
                consumer_ns, broker_ns = cpu_ns(consumer.pid) - consumer_ns, sum(map(cpu_ns, server.pids)) - broker_ns
        return {
            "lite_pull_per_s": polled / stand.seconds,
            "lite_pull_consumer_cpu_us": consumer_ns / 1000 / polled,
            "lite_pull_cpu_us": broker_ns / 1000 / polled,
            "lite_pull_foreign": meter.foreign_cores,
        }
