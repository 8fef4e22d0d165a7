"""What a Python program does with PyPI's `rocketmq-python-client`; driving.py says how a driver is talked to.

Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is left
for the end.
"""

# house: one program, copied into an environment where nothing of ours is installed.
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rocketmq.grpc_protocol import FilterType, TransactionResolution
from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import ConsumeResult, MessageListener, PushConsumer, SimpleConsumer
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer, TransactionChecker

PATIENCE_S = 90
QUIET_S = 2
ENDPOINT = sys.argv[1]
TOPICS = {
    "NORMAL": [
        "send", "properties", "receive", "change", "tags", "sql92", "push", "retry", "share", "dead-letter", "large",
        "types", "restart",
    ],
    "FIFO": ["fifo"],
    "DELAY": ["delay", "recall"],
    "TRANSACTION": ["transaction", "orphan"],
}  # fmt: skip
GROUPS = {"g-fifo": {"consume_message_orderly": True}, "g-dead-letter": {"retry_max_times": 1}}

_lock = threading.Lock()


def main() -> None:
    for kind, topics in TOPICS.items():
        ask({"create": topics, "kind": kind})
    ask({"groups": GROUPS})
    producer = Producer(configuration(), [topic for topics in TOPICS.values() for topic in topics], Checker())
    producer.startup()
    tasks = {
        "send": send, "properties": properties, "receive": receive, "change": change, "tags": tags, "sql92": sql92,
        "push": push, "retry": retry, "share": share, "fifo": fifo, "delay": delay, "recall": recall,
        "transaction": transaction, "orphan": orphan, "dead-letter": dead_letter, "types": types, "large": large,
    }  # fmt: skip
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(tell, name, task, producer) for name, task in tasks.items()]:
            done.result()
    tell("restart", restart, producer)
    sys.stdout.flush()
    os._exit(0)  # Some threads of the client don't end.


# -- behaviours --------------------------------------------------------------------------------------------------------


def send(producer: Any) -> str:
    receipts = [producer.send(message("send", number)) for number in range(8)]
    same(sorted(receipt.offset for receipt in receipts), [0, 0, 0, 0, 1, 1, 1, 1], "queue offsets")
    same(len({receipt.message_id for receipt in receipts}), 8, "ids")
    later = producer.send_async(message("send", 8)).result(PATIENCE_S)
    same(later.offset, 2, "offset of the asynchronous one")
    return ""


def properties(producer: Any) -> str:
    sent = message("properties", 1)
    sent.tag, sent.keys = "paid", "key-1"
    sent.add_property("umlaut", "größe")
    sent.body = "body é".encode()
    receipt = producer.send(sent)
    with Simple("properties") as consumer:
        [got] = consumer.take(1)
    same(got.body.decode(), "body é", "body")
    same((got.tag, set(got.keys), got.message_id), ("paid", {"key-1"}, receipt.message_id), "tag, keys, id")
    same(dict(got.properties)["umlaut"], "größe", "property")
    same(got.delivery_attempt, 1, "attempt")
    return ""


def receive(producer: Any) -> str:
    for number in range(20):
        producer.send(message("receive", number))
    with Simple("receive") as consumer:
        got = consumer.take(20)
        same(numbers(got), list(range(20)), "messages")
        same(consumer.take(0, within_s=12), [], "messages after all were acknowledged")
    return ""


def change(producer: Any) -> str:
    producer.send(message("change", 1))
    with Simple("change") as consumer:
        [first] = consumer.take(1, ack=False)
        began = time.monotonic()
        consumer.consumer.change_invisible_duration(first, 2)
        [second] = consumer.take(1)
        waited = time.monotonic() - began
    same((first.delivery_attempt, second.delivery_attempt), (1, 2), "attempts")
    same(second.message_id, first.message_id, "id")
    return window("again", waited, 1.5, 12)


def tags(producer: Any) -> str:
    return filtered(producer, "tags", FilterExpression("TagA || TagB"), lambda number: number % 3 != 2)


def sql92(producer: Any) -> str:
    condition = FilterExpression("number >= 10 AND parity IN ('even')", FilterType.SQL)
    return filtered(producer, "sql92", condition, lambda number: number >= 10 and number % 2 == 0)


def filtered(producer: Any, topic: str, expression: Any, wanted: Callable[[int], bool]) -> str:
    for number in range(30):
        each = message(topic, number)
        each.tag = ("TagA", "TagB", "TagC")[number % 3]
        each.add_property("parity", "odd" if number % 2 else "even")
        producer.send(each)
    expected = [number for number in range(30) if wanted(number)]
    with Simple(topic, expression) as consumer:
        got = consumer.take(len(expected))
        got += consumer.take(0, within_s=6)
    same(numbers(got), expected, "messages")
    return ""


def push(producer: Any) -> str:
    with Push("push") as listener:
        for number in range(200):
            producer.send(message("push", number))
        listener.wait(200)
        pause(QUIET_S)
        same(numbers(listener.got), list(range(200)), "messages")
    return ""


def retry(producer: Any) -> str:
    producer.send(message("retry", 1))
    with Push("retry", fails=1) as listener:
        listener.wait(2)
    first, second = listener.got
    same((first.delivery_attempt, second.delivery_attempt), (1, 2), "attempts")
    same((second.message_id, second.topic), (first.message_id, "retry"), "id and topic")
    return window("first retry", listener.at[1] - listener.at[0], 0.9, 12)


def share(producer: Any) -> str:
    with Push("share") as one, Push("share") as other:
        pause(3)
        for number in range(300):
            producer.send(message("share", number))
        until("300 messages", lambda: len(one.got) + len(other.got) >= 300)
        pause(QUIET_S)
        same(sorted(numbers(one.got) + numbers(other.got)), list(range(300)), "messages")
        check(bool(one.got and other.got), f"{len(one.got)} and {len(other.got)} messages")
    return f"{len(one.got)} and {len(other.got)}"


def fifo(producer: Any) -> str:
    for number in range(30):
        each = message("fifo", number)
        each.message_group = f"group-{number % 2}"
        producer.send(each)
    with Push("fifo") as listener:
        listener.wait(30)
        pause(QUIET_S)
    for group in (0, 1):
        got = [int(each.properties["number"]) for each in listener.got if each.message_group == f"group-{group}"]
        same(got, list(range(group, 30, 2)), f"order of group {group}")
    return ""


def delay(producer: Any) -> str:
    delayed = message("delay", 1)
    due = int(time.time()) + 4
    delayed.delivery_timestamp = due
    producer.send(delayed)
    with Simple("delay") as consumer:
        consumer.take(1)
        return window("delivered", time.time() - due, -0.1, 10)


def recall(producer: Any) -> str:
    receipts = []
    for number in range(2):
        delayed = message("recall", number)
        delayed.delivery_timestamp = int(time.time()) + 15
        receipts.append(producer.send(delayed))
    producer.recall_message("recall", receipts[0].recall_handle)
    with Simple("recall") as consumer:
        same(numbers(consumer.take(1)), [1], "messages")
        same(consumer.take(0, within_s=6), [], "further messages")
    return ""


def transaction(producer: Any) -> str:
    for number in range(4):
        half = producer.begin_transaction()
        producer.send(message("transaction", number), half)
        half.commit() if number % 2 else half.rollback()
    with Simple("transaction") as consumer:
        got = consumer.take(2)
        got += consumer.take(0, within_s=6)
    same(numbers(got), [1, 3], "messages")
    return ""


def orphan(producer: Any) -> str:
    began = time.monotonic()
    producer.send(message("orphan", 1), producer.begin_transaction())
    with Simple("orphan") as consumer:
        same(numbers(consumer.take(1)), [1], "messages")
    return window("asked and committed", time.monotonic() - began, 5, 45)


def dead_letter(producer: Any) -> str:
    producer.send(message("dead-letter", 1))
    with Push("dead-letter", fails=9) as listener:
        listener.wait(2)
        pause(7)  # The third receive finds that it was given too often.
        same([each.delivery_attempt for each in listener.got], [1, 2], "attempts")
        with Simple("%DLQ%g-dead-letter", group="g-buried") as consumer:
            same(numbers(consumer.take(1)), [1], "dead letters")
    return ""


def types(producer: Any) -> str:
    wrong = message("types", 1)
    wrong.message_group = "g"
    try:
        producer.send(wrong)
    except Exception as error:  # noqa: BLE001 (the client's own refusal)
        return f"{type(error).__name__}"
    raise AssertionError("a topic of type NORMAL took an ordered message")


def large(producer: Any) -> str:
    sent = message("large", 1)
    sent.body = bytes(range(256)) * 16_000
    producer.send(sent)
    with Simple("large") as consumer:
        [got] = consumer.take(1)
    same(len(got.body), 4_096_000, "bytes")
    return ""


def restart(producer: Any) -> str:
    for number in range(10):
        producer.send(message("restart", number))
    with Simple("restart") as consumer:
        same(numbers(consumer.take(10)), list(range(10)), "messages before")
        ask({"restart": "broker"})
        until("a send after the restart", lambda: sent_after(producer))
        got = consumer.take(1)
        same(numbers(got), [10], "messages after")
    return ""


def sent_after(producer: Any) -> bool:
    try:
        producer.send(message("restart", 10))
    except Exception:  # noqa: BLE001 (whatever it says of a broker that is away)
        pause(0.5)
        return False
    return True


# -- clients -----------------------------------------------------------------------------------------------------------


class Checker(TransactionChecker):  # type: ignore[misc]
    def check(self, message: Any) -> Any:
        return TransactionResolution.COMMIT


class Simple:
    """A simple consumer of one topic, by default in a group named like it."""

    def __init__(self, topic: str, expression: Any = None, group: str = "") -> None:
        subscription = {topic: expression or FilterExpression()}
        self.consumer = SimpleConsumer(configuration(), group or f"g-{topic}", subscription, await_duration=5)

    def __enter__(self) -> "Simple":
        self.consumer.startup()
        return self

    def __exit__(self, *_: object) -> None:
        threading.Thread(target=self.consumer.shutdown, daemon=True).start()

    def take(self, count: int, within_s: float = PATIENCE_S, ack: bool = True) -> list[Any]:
        """Receive until there are as many; with 0, whatever comes within the time."""
        got: list[Any] = []
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and (not count or len(got) < count):
            try:
                messages = self.consumer.receive(32, 20)
            except Exception:  # noqa: BLE001 (the broker is being restarted)
                pause(0.5)
                continue
            for each in messages:
                if ack:
                    self.consumer.ack(each)
            got += messages
        if count and len(got) < count:
            raise AssertionError(f"{len(got)} of {count} messages within {within_s} s")
        return got


class Push(MessageListener):  # type: ignore[misc]
    """A push consumer of one topic; the first `fails` messages fail."""

    def __init__(self, topic: str, fails: int = 0) -> None:
        self.got: list[Any] = []
        self.at: list[float] = []
        self._fails = fails
        self._guard = threading.Lock()
        self._consumer = PushConsumer(configuration(), f"g-{topic}", self, {topic: FilterExpression()})

    def consume(self, message: Any) -> Any:
        with self._guard:
            self.got.append(message)
            self.at.append(time.monotonic())
            failed = len(self.got) <= self._fails
        return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS

    def __enter__(self) -> "Push":
        self._consumer.startup()
        return self

    def __exit__(self, *_: object) -> None:
        threading.Thread(target=self._consumer.shutdown, daemon=True).start()

    def wait(self, count: int) -> None:
        until(f"{count} messages", lambda: len(self.got) >= count)


def configuration() -> Any:
    key, secret = (os.environ.get(f"ROCKETMQ_{name}_KEY", "") for name in ("ACCESS", "SECRET"))
    # By default 3 s, in which a proxy on a busy machine doesn't respond.
    return ClientConfiguration(ENDPOINT, Credentials(key, secret), request_timeout=10)


def message(topic: str, number: int) -> Any:
    made = Message()
    made.topic = topic
    made.body = b"%d" % number
    made.add_property("number", str(number))
    return made


def numbers(messages: list[Any]) -> list[int]:
    return sorted(int(each.properties["number"]) for each in messages)


# -- telling -----------------------------------------------------------------------------------------------------------


def tell(name: str, behaviour: Callable[[Any], str], producer: Any) -> None:
    began = time.monotonic()
    try:
        ok, detail = True, behaviour(producer)
    except BaseException as error:  # noqa: BLE001 (what a behaviour raises is its outcome)
        ok, detail = False, f"{type(error).__name__}: {error}"
    say({"behaviour": name, "ok": ok, "ms": int((time.monotonic() - began) * 1000), "detail": detail})


def say(words: dict[str, Any]) -> None:
    with _lock:
        print(json.dumps(words), flush=True)


def ask(words: dict[str, Any]) -> None:
    say(words)
    sys.stdin.readline()


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} didn't come in {PATIENCE_S} s")
        pause(0.05)


def window(what: str, seconds: float, least: float, most: float) -> str:
    check(least <= seconds <= most, f"{what} after {seconds:.2f} s, not {least} to {most}")
    return f"{what} after {seconds:.2f} s"


def pause(seconds: float) -> None:
    time.sleep(seconds)  # house: this is a user's program, and the client's threads say nothing when they are done


def same(got: Any, wanted: Any, what: str) -> None:
    check(got == wanted, f"{what}: {got!r}, not {wanted!r}")


def check(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main()
