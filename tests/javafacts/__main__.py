"""Writes facts.jsonl: questions answered by RocketMQ's classes. Needs a JDK and Maven.

With `--check` it writes nothing, and fails if they answer anything else now. Either way MessageClientIDSetter is shown
ids that are made now: what it reads from them depends on the day that it is.
"""

import subprocess
import sys
import tempfile
import time

from staticfire.protocol.compression import compress
from staticfire.protocol.message_ids import UniqueIds
from staticfire.protocol.sys_flag import CompressionKind
from tests.allocation.jars import HERE, java_command
from tests.javafacts.facts import FILE, Fact, read_facts, write_facts

BODIES = (b"a", b"the same again, " * 400, bytes(range(256)) * 3, b"\x00" * 300_000)
LEVELS = ("1", "9")
LATENCIES = (
    0,
    49,
    50,
    99,
    100,
    549,
    550,
    551,
    1_799,
    1_800,
    2_999,
    3_000,
    4_999,
    5_000,
    10_000,
    14_999,
    15_000,
    99_999,
)
NAMESPACES = ("", "ns", "MQ_INST_1")
NAMES = (
    *("", "orders", "ns%orders", "other%orders", "%orders", "orders%", "nsorders", "ns%", "a%b%c", "MQ_INST_1%x"),
    *("%RETRY%billing", "%RETRY%ns%billing", "%DLQ%billing", "%DLQ%ns%billing", "%RETRY%", "%DLQ%ns%", "%RETRY%%DLQ%g"),
    *("TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "SELF_TEST_TOPIC"),
    *("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_x", "TOOLS_CONSUMER", "CID_ONSAPI_PULL", "DefaultCluster_REPLY_TOPIC"),
    *(
        "OFFSET_MOVED_EVENT",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "DefaultCluster",
        "DEFAULT_PRODUCER",
        "CLIENT_INNER_PRODUCER",
    ),
)


def main() -> None:
    show_fresh_ids()
    if "--check" in sys.argv:
        facts = [Fact(fact.parts, "") for kind in KINDS for fact in read_facts(kind)]
        answered = answers(facts)
        if answered != [fact for kind in KINDS for fact in read_facts(kind)]:
            raise SystemExit(f"tests.javafacts: RocketMQ's classes answer something else than {FILE.name} says")
    else:
        answered = answers(questions())
        write_facts(answered)
    print(f"{len(answered)} facts", file=sys.stderr)


def questions() -> list[Fact]:
    requested: list[tuple[str, ...]] = []
    for kind in CompressionKind:
        requested += [("expand", kind.name, compress(body, kind, 5).hex()) for body in BODIES]
        requested += [("pack", kind.name, level, body[:1_000].hex()) for body in BODIES[:3] for level in LEVELS]
    requested += [
        (how, namespace, name) for how in ("wrap", "unwrap", "retry") for namespace in NAMESPACES for name in NAMES
    ]
    requested += [("latency", str(latency)) for latency in LATENCIES]
    return [Fact(parts, "") for parts in requested]


KINDS = ("expand", "pack", "wrap", "unwrap", "retry", "latency")


def answers(facts: list[Fact]) -> list[Fact]:
    return [Fact(fact.parts, line) for fact, line in zip(facts, ask([fact.parts for fact in facts]), strict=True)]


def ask(questions: list[tuple[str, ...]]) -> list[str]:
    """Return what RocketMQ's classes say. Raises: CalledProcessError, ValueError (one of them threw)."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(
            java_command("Facts", folder, HERE.parent / "javafacts"),
            input="\n".join("\t".join(parts) for parts in questions),
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
    return said.stdout.splitlines()


def show_fresh_ids() -> None:
    """Have ids read back that are a moment, minutes and days old. Raises: SystemExit."""
    now_ms = int(time.time() * 1000)
    offset_ms = time.localtime().tm_gmtoff * 1000
    made, wanted = [], []
    for ip, text in (
        (bytes([10, 1, 2, 3]), "10.1.2.3"),
        (bytes(15) + b"\x01", "0000:0000:0000:0000:0000:0000:0000:0001"),
    ):
        for pid in (1, 42, 65_535, 70_000):
            for age_ms in (0, 600_000, 20 * 86_400_000):
                made.append(UniqueIds(ip, pid, 0xCAFE, offset_ms).next_id(now_ms - age_ms))
                wanted.append(f"{text}\t{pid & 0xFFFF}\t{now_ms - age_ms}")
    read = ask([("id", one) for one in made])
    if read != wanted:
        differing = [
            f"{one}: {said} instead of {meant}"
            for one, said, meant in zip(made, read, wanted, strict=True)
            if said != meant
        ]
        raise SystemExit("tests.javafacts: RocketMQ reads other things from our ids:\n" + "\n".join(differing))


if __name__ == "__main__":
    main()
