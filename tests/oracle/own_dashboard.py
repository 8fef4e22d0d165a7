"""`staticfire dashboard` on a real RocketMQ: pages show what is there, and nothing is changed without --write.

python -m tests.oracle.own_dashboard HOST:PORT
"""

import html
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace

from staticfire import (
    Admin,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
)
from staticfire.protocol.names import TRACE_TOPIC
from tests.oracle.patience import CLIENT, SENDS, TIMEOUT_MS

TOPIC, GROUP = "watched-orders", "watched-billing"
MESSAGES = 40
PATIENCE_S = 30
READ = {
    "/ui/": "Clients can use the cluster",
    f"/ui/topics?match={TOPIC}": TOPIC,
    f"/ui/topics/{TOPIC}": GROUP,
    f"/ui/groups?match={GROUP}": GROUP,
    f"/ui/groups?match={GROUP}&sort=-members": GROUP,
    f"/ui/topics?match={TOPIC}&sort=-messages": TOPIC,
    f"/ui/groups/{GROUP}": "1 member, no backlog",
    f"/ui/do/change-topic?topic={TOPIC}&queues=5": "writeQueues changes from 4 to 5",
    f"/ui/do/change-group?group={GROUP}&retries=5": "retries changes from 16 to 5",
    "/ui/traces": "The newest",
    "/ui/traces?id=watched-7": "to watched-orders at",
    "/ui/messages?key=watched-7": TOPIC,
    "/ui/producers": "watched-shop",
    f"/ui/messages?topic={TOPIC}": "watched-7",
    f"/ui/messages?topic={TOPIC}&from=0": "watched-7",
    "/ui/messages/watched-7": "stored",
    f"/ui/dlq?match={GROUP}": "No group with dead letters has a name with",
    f"/ui/dlq/{GROUP}": "has no dead letters",
}
"""What each page says. Other programs have left topics, groups and dead letters there, so lists are filtered."""
MISSING = ("/ui/transactions", "/ui/popped", "/ui/clock", "/ui/faults", "/ui/journal", "/ui/snapshots")
WRITES = {
    "/ui/do/delete-topic": f"topic={TOPIC}",
    "/ui/do/change-topic": f"topic={TOPIC}&queues=5",
    "/ui/do/change-group": f"group={GROUP}&retries=5",
    "/topics": '{"topic": "written"}',
    f"/groups/{GROUP}/offsets": "{}",
}


def main() -> int:
    """Look at all pages; return the exit code."""
    namesrv = sys.argv[1]
    with Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin:
        admin.create_topic(TOPIC, queues=4)
        admin.create_group(GROUP)
    settings = PushSettings(client=CLIENT, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer(GROUP, namesrv, settings)
    consumer.subscribe(TOPIC)
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    with Producer("watched-shop", namesrv, replace(SENDS, enable_trace=True)) as producer, consumer:
        for number in range(MESSAGES):
            producer.send(Message(TOPIC, b"%d" % number, keys=[f"watched-{number}"]))
        consumed_all(namesrv)
        traced(namesrv)
        wrong = look(namesrv)
    for line in wrong:
        print(f"own_dashboard: {line}", file=sys.stderr)
    print(f"own_dashboard: {len(READ)} pages, {len(wrong)} wrong")
    return 1 if wrong else 0


def consumed_all(namesrv: str) -> None:
    """Wait until the group has committed all messages. RocketMQ's members commit every five seconds."""
    with Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin:
        end_s = time.monotonic() + PATIENCE_S
        while sum(one.committed for one in admin.group(GROUP).progress if one.topic == TOPIC) < MESSAGES:
            assert time.monotonic() < end_s, f"{GROUP} hasn't consumed {MESSAGES} messages after {PATIENCE_S} s"


def traced(namesrv: str) -> None:
    """Wait until the producer has sent its traces."""
    with Admin(namesrv, CLIENT, timeout_ms=TIMEOUT_MS) as admin:
        end_s = time.monotonic() + PATIENCE_S
        while not admin.find("watched-7", TRACE_TOPIC):
            assert time.monotonic() < end_s, f"no trace after {PATIENCE_S} s"


def look(namesrv: str) -> list[str]:
    """Return what is wrong."""
    command = [sys.executable, "-m", "staticfire", "dashboard", "-n", namesrv, "--protocol", "rocketmq", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition("DASHBOARD=")[2].strip().rstrip("/")
        wrong = [path for path, words in READ.items() if not shows_in_time(url + path, words)]
        wrong += [path for path in MISSING if not shows(url + path, 404, "staticfire's")]
        wrong += [path for path, data in WRITES.items() if not shows(url + path, 403, "only reads", data)]
    finally:
        process.terminate()
        process.wait()
    return wrong


def shows_in_time(url: str, words: str) -> bool:
    """Return whether a page says this. RocketMQ indexes messages, and counts what it serves, in the background."""
    end_s = time.monotonic() + PATIENCE_S
    while not shows(url, 200, words):
        if time.monotonic() > end_s:
            return False
        time.sleep(1)  # house: a real RocketMQ lives in wall time
    return True


def shows(url: str, status: int, words: str, data: str | None = None) -> bool:
    """Return whether a page has this status and says this."""
    origin = "/".join(url.split("/")[:3])
    request = urllib.request.Request(url, None if data is None else data.encode(), {"Origin": origin})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            found, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            found, text = refused.code, refused.read().decode()
    return found == status and words in html.unescape(re.sub(r"<[^>]+>", "", text))


if __name__ == "__main__":
    sys.exit(main())
