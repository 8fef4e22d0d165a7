"""The performance goals for a machine with two cores, and whether they are met.

A throughput goal is met by the figure or by the server's CPU time per message. If other programs use the machine, CPU
time is more reliable.
"""

from dataclasses import dataclass
from enum import Enum

from benchmarks.figures import Values


class Verdict(Enum):
    """Whether a goal is met."""

    MET = "met"
    MET_BY_CPU = "met by CPU"
    MISSED = "missed"
    NOT_MEASURED = "-"


@dataclass(frozen=True)
class Goal:
    """One line of the table: a figure and its goal."""

    key: str
    what: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    cpu_key: str = ""
    cpu_us_at_most: float = 0.0
    times_key: str = ""
    """If given, `at_most` is a multiple of this figure."""
    rocketmq: str = ""
    """The result of a real RocketMQ 5.3.3 on such a machine."""

    def verdict(self, values: Values) -> Verdict:
        """Return whether the values meet the goal."""
        value = values.get(self.key)
        if value is None or (self.times_key and values.get(self.times_key) is None):
            return Verdict.NOT_MEASURED
        if self.at_least is not None:
            if value >= self.at_least:
                return Verdict.MET
            cpu_us = values.get(self.cpu_key)
            return Verdict.MET_BY_CPU if cpu_us is not None and cpu_us <= self.cpu_us_at_most else Verdict.MISSED
        return Verdict.MET if value <= self.limit(values) else Verdict.MISSED

    def limit(self, values: Values) -> float:
        """Return the maximum of the figure."""
        return (self.at_most or 0.0) * (values[self.times_key] if self.times_key else 1.0)

    @property
    def words(self) -> str:
        """The goal as text."""
        if self.at_least is not None:
            least = f"{self.at_least:,.0f}" if self.at_least >= 10 else f"{self.at_least:g}"
            return f">= {least}" + (f" or {self.cpu_us_at_most:g} us CPU" if self.cpu_key else "")
        return f"<= {self.at_most:g} x {self.times_key}" if self.times_key else f"<= {self.at_most:g}"


GOALS = [
    Goal(
        "send_rtt_p50_us", "one send at a time, p50", "us", at_most=1.5, times_key="echo_rtt_p50_us", rocketmq="286"
    ),
    Goal(
        "send_c1_per_s", "sends, window 64, 1 connection", "/s", 180_000, cpu_key="send_c1_cpu_us",
        cpu_us_at_most=5.5, rocketmq="41,000",
    ),
    Goal(
        "send_c8_per_s", "sends, window 64, 8 connections", "/s", 250_000, cpu_key="send_c8_cpu_us",
        cpu_us_at_most=4, rocketmq="55,000",
    ),
    Goal(
        "json_send_c1_per_s", "the same over JSON, 1 connection", "/s", 100_000, cpu_key="json_send_c1_cpu_us",
        cpu_us_at_most=9, rocketmq="41,000",
    ),
    Goal(
        "json_send_c8_per_s", "the same over JSON, 8 connections", "/s", 120_000, cpu_key="json_send_c8_cpu_us",
        cpu_us_at_most=9, rocketmq="55,000",
    ),
    Goal(
        "batch32_per_s", "messages in batches of 32", "/s", 500_000, cpu_key="batch32_cpu_us", cpu_us_at_most=2,
        rocketmq="180,000",
    ),
    Goal(
        "pull32_per_s", "messages in pulls of 32", "/s", 600_000, cpu_key="pull32_cpu_us", cpu_us_at_most=1.6,
        rocketmq="127,000",
    ),
    Goal("pop_per_s", "messages in pops of 32, over JSON", "/s", 100_000),
    Goal("json_pull32_per_s", "the same over JSON", "/s", 200_000, rocketmq="127,000"),
    Goal(
        "producer_per_s", "the client's producer, 64 senders", "/s", 150_000, cpu_key="producer_client_cpu_us",
        cpu_us_at_most=6.6, rocketmq="Java, 32 threads: 11,000",
    ),
    Goal(
        "send_many_per_s", "the same with send_many", "/s", 200_000, cpu_key="send_many_client_cpu_us",
        cpu_us_at_most=5,
    ),
    Goal("end_to_end_per_s", "from a producer to a listener", "/s", 110_000),
    Goal("listener_p50_us", "one message, send to listener, p50", "us", at_most=400, rocketmq="1,560"),
    Goal("consumer_first_message_ms", "consumer start to first message", "ms", at_most=100, rocketmq="1,580"),
    Goal("rebalance_ms", "a member joins 20, 128 queues: all shared", "ms", at_most=50),
    Goal("members_200_join_s", "200 members start, 1,000 queues: all shared", "s", at_most=5),
    Goal("lite_pull_per_s", "a lite pull consumer polls", "/s", 150_000),
    Goal("scale_out_ratio", "two brokers beside one, sends", "x", 1.5),
    Goal("delayed_1m_late_p99_ms", "1,000,000 delayed: late, p99", "ms", at_most=100),
    Goal("delayed_1m_bytes_each", "1,000,000 delayed: memory of each", "B", at_most=20),
    Goal("delayed_kills_wrong", "1,000,000 delayed, a kill -9 and a restart: lost, twice or early", "", at_most=0),
    Goal("retry_cpu_us", "a retry of many side by side, clock skips", "us CPU", at_most=200),
    Goal("dlq_road_ms", "16 retries and %DLQ%, clock jumps", "ms", at_most=1000, rocketmq="4 h 45 min 40 s"),
    Goal("sql_filter_us", "SQL92, three terms, per message", "us", at_most=1.5),
    Goal("timers_1m_late_p99_ms", "1,000,000 with a time of their own: late, p99", "ms", at_most=100),
    Goal("timers_1m_rss_mib", "1,000,000 with a time of their own: memory", "MiB", at_most=100),
    Goal(
        "pop_redelivery_100k_late_p99_ms", "100,000 popped come again: late, p99", "ms", at_most=100,
        rocketmq="2,000-3,400",
    ),
    Goal("sync_flush_x_disk", "SYNC_FLUSH, 8 connections, beside the bare disk", "x", 0.5),
    Goal("trace_off_ratio", "a producer without traces beside one that knows none", "x", 0.97),
    Goal("transactions_x_sends", "half and commit, window 64, beside plain sends", "x", 0.5),
    Goal("transactions_x_sends_cpu", "the same by the broker's CPU time", "x", 0.5),
    Goal("key_query_ms", "a key among 1,000,000 messages of a broker, p99", "ms", at_most=10),
    Goal("key_index_ms", "a key among 10,000,000 in the index alone, p99", "ms", at_most=10),
    Goal("held_10k_rss_mib", "10,000 held pulls: memory", "MiB", at_most=60),
    Goal("held_10k_cpu_percent", "10,000 held pulls: CPU", "%", at_most=1),
    Goal("simulated_idle_hours_per_min", "simulated: 3 brokers, 10 clients, idle", "h/min", 100),
    Goal("simulated_busy_hours_per_min", "the same with 10 messages/s", "h/min", 5),
    Goal("ready_ms", "`staticfire up` to ready", "ms", at_most=150, rocketmq="3,700-4,100"),
    Goal("cluster_cold_ms", "`Cluster()`, a program's first: enter", "ms", at_most=60),
    Goal("cluster_enter_ms", "`Cluster()`, a later one: enter", "ms", at_most=5),
    Goal("cluster_exit_ms", "the same: exit", "ms", at_most=5),
    Goal("cluster_reset_ms", "the same: reset", "ms", at_most=5),
    Goal("cluster_process_ms", '`Cluster(isolation="process")`: enter', "ms", at_most=200),
    Goal("many_topics_x", "sends to 10,000 topics in turn beside ten, by CPU", "x", 0.9),
    Goal("new_queue_cpu_us", "a queue's first message, with its folder and file, CPU", "us", at_most=250),
    Goal("grpc_send_per_s", "gRPC sends, 8 connections, window 32", "/s", 6_000, rocketmq="1,300-4,300"),
    Goal("grpc_send_cpu_us", "gRPC endpoint, CPU of each send", "us", at_most=70),
    Goal("grpc_receive_per_s", "gRPC receives of 32, 4 connections", "/s", 10_000),
    Goal("grpc_ready_ms", "the gRPC endpoint in `staticfire up`: ready later by", "ms", at_most=150),
    Goal("grpc_pss_mib", "memory of the gRPC endpoint, after TLS", "MiB", at_most=60),
    Goal("spark_read_per_s", "Spark reads a topic: rows of 100 bytes", "/s", 400_000),
    Goal("spark_read_x_parquet", "the same beside the rows in Parquet", "x", 0.35),
    Goal("spark_micro_batch_more_ms", "micro-batch: more than an empty source", "ms", at_most=20),
    Goal("spark_write_per_s", "Spark writes rows of 100 bytes to a topic", "/s", 150_000),
    Goal("spark_write_batch_more_ms", "micro-batch: more than into an empty sink", "ms", at_most=40),
    Goal("spark_sweep_per_min", "sweep: runs of ten simulated minutes", "/min", 40),
    Goal("import_ms", "`import staticfire`, beside a bare Python", "ms", at_most=60),
    Goal("help_ms", "`staticfire --help`", "ms", at_most=150),
    Goal("fixture_first_ms", "the fixture's first cluster in a process, imports included", "ms", at_most=300),
    Goal("fixture_test_ms", "the fixture, each test after that", "ms", at_most=10),
    Goal("explain_ms", "explain with 1,000 topics, 10,000 queues, 200 groups", "ms", at_most=100),
    Goal("idle_pss_mib", "memory of nameserver and broker", "MiB", at_most=75, rocketmq="510"),
]  # fmt: skip
