"""PyPI's `rocketmq` client, unchanged, as a program: the native code has threads and logs of its own.

usage: python_client.py NAMESRV_ADDR ACTION TOPIC COUNT

ACTION is one of the functions below. Prints one JSON list: what was sent, or what was received.
"""

import json
import sys
import threading
import time
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.exceptions import ProducerException

Rows = list[dict[str, Any]]

TAGS = ("paid", "refunded", "open")
ANSWER_TIMEOUT_S = 30


def message(topic: str, number: int) -> Message:
    """Return the message with that number: tag, key, property and body follow from it."""
    made = Message(topic)
    made.set_keys(f"key-{number}")
    made.set_tags(TAGS[number % len(TAGS)])
    made.set_property("number", str(number))
    # Every tenth is longer than what the client sends uncompressed.
    made.set_body(f"body {number} é" + " and more" * (600 if number % 10 == 0 else 0))
    return made


def row(received: RecvMessage) -> dict[str, Any]:
    return {
        "id": received.id,
        "topic": received.topic,
        "keys": received.keys.decode(),
        "tags": received.tags.decode(),
        "number": int(received["number"]),
        "body": received.body.decode(),
        "queue_id": received.queue_id,
        "offset": received.queue_offset,
        "reconsume_times": received.reconsume_times,
    }


def producer(namesrv: str) -> Producer:
    """Return a producer whose connections stand, to every address that this program will talk to.

    The native code gives a request up that comes while another thread connects to the same address ("get timed_mutex
    timeout" in its log): a send ends with "No route info", a consumer waits 10 s for its next rebalance. A program's
    producers and consumers share their connections, so a message that may be refused goes ahead of everything else.
    """
    made = Producer("shop")
    made.set_namesrv_addr(namesrv)
    made.start()
    warming = Message("warm-up")
    warming.set_body("ahead of everything else")
    end = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            made.send_sync(warming)
            return made
        except ProducerException:
            if time.monotonic() > end:
                raise


def send(namesrv: str, topic: str, count: int) -> Rows:
    sender = producer(namesrv)
    results = [sender.send_sync(message(topic, number)) for number in range(count)]
    sender.shutdown()
    return [{"status": result.status.name, "id": result.msg_id, "offset": result.offset} for result in results]


def send_otherwise(namesrv: str, topic: str, count: int) -> Rows:
    """Send in every way there is: as a batch, asynchronously, one-way, and all of one number to one queue."""
    sender = producer(namesrv)
    sender.send_batch([message(topic, number) for number in range(count)])
    for number in range(count, 2 * count):
        sender.send_oneway(message(topic, number))
        sender.send_orderly(message(topic, number + count), 2)
    answered = threading.Semaphore(0)
    results: list[Any] = []

    def settled(result: Any) -> None:
        results.append(result)
        answered.release()

    for number in range(3 * count, 4 * count):
        sender.send_async(message(topic, number), settled, settled)
    for _ in range(count):
        assert answered.acquire(timeout=ANSWER_TIMEOUT_S), "no answer to an asynchronous send"
    sender.shutdown()
    return [{"status": result.status.name, "id": result.msg_id} for result in results]


def pull(namesrv: str, topic: str, count: int, expression: str = "*") -> Rows:
    connected = producer(namesrv)
    consumer = PullConsumer("readers")
    consumer.set_namesrv_addr(namesrv)
    consumer.start()
    rows = [row(received) for received in consumer.pull(topic, expression)]
    consumer.shutdown()
    connected.shutdown()
    return rows


def pull_paid(namesrv: str, topic: str, count: int) -> Rows:
    return pull(namesrv, topic, count, TAGS[0])


def push(namesrv: str, topic: str, count: int, orderly: bool = False) -> Rows:
    connected = producer(namesrv)
    consumer = PushConsumer("billing", orderly=orderly)
    consumer.set_namesrv_addr(namesrv)
    consumer.set_thread_count(1)
    rows: Rows = []
    finished = threading.Event()

    def listen(received: RecvMessage) -> None:
        rows.append(row(received))
        if len(rows) == count:
            finished.set()
        if received["fails"] and received.reconsume_times == 0:
            raise RuntimeError("this listener fails once, so the message comes again")

    consumer.subscribe(topic, listen)
    consumer.start()
    finished.wait(ANSWER_TIMEOUT_S)
    consumer.shutdown()
    connected.shutdown()
    return rows


def push_orderly(namesrv: str, topic: str, count: int) -> Rows:
    return push(namesrv, topic, count, orderly=True)


def push_failing(namesrv: str, topic: str, count: int) -> Rows:
    """Send a message that fails once, and wait for both deliveries."""
    sender = producer(namesrv)
    failing = message(topic, 1)
    failing.set_property("fails", "yes")
    sender.send_sync(failing)
    sender.shutdown()
    return push(namesrv, topic, count)


if __name__ == "__main__":
    namesrv, action, topic, count = sys.argv[1:]
    print(json.dumps(globals()[action](namesrv, topic, int(count))))
