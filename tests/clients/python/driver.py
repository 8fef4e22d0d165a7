"""What a Python program does with PyPI's `rocketmq` (a C++ core); driving.py says how a driver is talked to.

Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is left
for the end. More of this client is tried in tests/foreign/.
"""

# house: one program, copied into an environment where nothing of ours is installed.
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.exceptions import ProducerException, RocketMQException
from rocketmq.ffi import MessageModel

PATIENCE_S = 40
QUIET_S = 1.5
# How long nothing more may arrive after everything did.
SETTLE_S = 0.3
# How long a client takes to note that the last message is consumed.
FIRST = 8
# Messages that are there before a new group comes: in empty queues it would begin behind what is sent meanwhile.


def send_sync(shared: Any) -> str:
    results = [shared.send_sync(message("sync", number)) for number in range(8)]
    same({result.status.name for result in results}, {"OK"}, "status")
    same({len(result.msg_id) for result in results}, {32}, "length of the ids")
    same([result.offset for result in results].count(0), 4, "queues")
    return ""


def send_async(shared: Any) -> str:
    shared.send_sync(message("async", 20))  # While a thread connects, the native code may give up sends of others.
    results: list[Any] = []
    for number in range(20):
        shared.send_async(message("async", number), results.append, results.append)
    until("20 answers", lambda: len(results) == 20)
    same({getattr(result, "status", result) for result in results}, {0}, "status")
    return ""


def send_oneway(shared: Any) -> str:
    for number in range(FIRST):
        shared.send_sync(message("oneway", number))
    with Listener("oneway") as listener:
        for number in range(FIRST, FIRST + 10):
            shared.send_oneway(message("oneway", number))
        listener.wait(FIRST + 10)
        same(listener.numbers(), list(range(FIRST + 10)), "messages")
    return ""


def send_batch(shared: Any) -> str:
    same(shared.send_batch([message("batch", number) for number in range(30)]).status.name, "OK", "status")
    with Listener("batch") as listener:
        listener.wait(30)
        same(listener.numbers(), list(range(30)), "messages")
        same(len({row["queue"] for row in listener.received}), 1, "queues of a batch")
    return ""


def properties(shared: Any) -> str:
    before = time.time() * 1000
    sent = message("properties", 1)
    sent.set_tags("paid")
    sent.set_keys("key-1 key-2")
    sent.set_property("spaced", " a  b ")
    sent.set_property("umlaut", "größe")
    sent.set_body("body é")
    result = shared.send_sync(sent)
    with Listener("properties") as listener:
        listener.wait(1)
        got = listener.received[0]
    same(got["body"], "body é", "body")
    same(got["tags"], "paid", "tags")
    same(got["keys"], "key-1 key-2", "keys")
    same(got["spaced"], " a  b ", "property")
    same(got["umlaut"], "größe", "property")
    same(got["id"], result.msg_id, "unique id")
    same(got["offset"], result.offset, "queue offset")
    check(got["born"] >= before - 1, f"born at {got['born']}, before {before}")
    same(got["times"], 0, "reconsume times")
    return ""


def tags(shared: Any) -> str:
    for number in range(30):
        each = message("tags", number)
        each.set_tags(("TagA", "TagB", "TagC")[number % 3])
        shared.send_sync(each)
    with Listener("tags", expression="TagA || TagB") as listener:
        listener.wait(20)
        pause(QUIET_S)
        same(listener.numbers(), [number for number in range(30) if number % 3 != 2], "messages")
    return ""


def once_each(shared: Any) -> str:
    for number in range(FIRST):
        shared.send_sync(message("once", number))
    with Listener("once") as listener:
        for number in range(FIRST, 200):
            shared.send_sync(message("once", number))
        listener.wait(200)
        pause(QUIET_S)
        same(listener.numbers(), list(range(200)), "messages")
    return ""


def retry(shared: Any) -> str:
    shared.send_sync(message("retried", 1))
    with Listener("retried", fails_once=True) as listener:
        listener.wait(2)
    first, second = listener.received
    same((first["times"], second["times"]), (0, 1), "reconsume times")
    same(second["id"], first["id"], "unique id")
    same(second["topic"], "retried", "topic")
    # A client that doesn't have the new retry topic's route yet asks for it every 30 s.
    return window("first retry", second["at"] - first["at"], 9.9, 35)


def delay(shared: Any) -> str:
    for number in range(FIRST):
        shared.send_sync(message("delayed", number))
    with Listener("delayed") as listener:
        listener.wait(FIRST)
        delayed = message("delayed", FIRST)
        delayed.set_delay_time_level(2)
        sent = time.monotonic()
        shared.send_sync(delayed)
        listener.wait(FIRST + 1)
    same(listener.received[-1]["topic"], "delayed", "topic")
    return window("level 2", listener.received[-1]["at"] - sent, 4.9, 12)


def timers(shared: Any) -> str:
    for number in range(FIRST):
        shared.send_sync(message("timers", number))
    with Listener("timers") as listener:
        listener.wait(FIRST)
        timed = message("timers", FIRST)
        timed.set_property("TIMER_DELAY_MS", "2750")
        sent = time.monotonic()
        shared.send_sync(timed)
        listener.wait(FIRST + 1)
    same(listener.received[-1]["topic"], "timers", "topic")
    return window("TIMER_DELAY_MS", listener.received[-1]["at"] - sent, 2.75, 10)


def ordered(shared: Any) -> str:
    for number in range(100):
        shared.send_orderly(message("ordered", number), number % 4)
    with Listener("ordered", orderly=True) as listener:
        listener.wait(100)
        pause(QUIET_S)
        same(listener.numbers(), list(range(100)), "messages")
    for queue in range(4):
        offsets = [row["offset"] for row in listener.received if row["queue"] == queue]
        same(offsets, list(range(25)), f"offsets of queue {queue}")
    return ""


def broadcast(shared: Any) -> str:
    model = MessageModel.BROADCASTING
    with Listener("broadcast", "a", model=model) as one, Listener("broadcast", "b", model=model) as other:
        sent = 0
        # Where a broadcasting consumer of this client begins can't be set: at the end, whenever it has its queues.
        while not (one.received and other.received):
            shared.send_sync(message("broadcast", sent))
            sent += 1
            pause(0.05)
            check(sent < PATIENCE_S * 20, "one of the consumers gets nothing")
        pause(QUIET_S)
        for number in range(sent, sent + 10):
            shared.send_sync(message("broadcast", number))
        for each in (one, other):
            until("10 more messages", partial(each.has_number, sent + 9))
            pause(SETTLE_S)
            same(each.numbers()[-10:], list(range(sent, sent + 10)), "messages")
    return ""


def share_queues(shared: Any) -> str:
    sent = 0

    def send_more() -> None:
        nonlocal sent
        for _ in range(4):
            shared.send_sync(message("shared", sent))
            sent += 1
        pause(0.05)

    def both_consume() -> bool:
        send_more()
        return len(other.queues(0)) == 2

    def one_has_all() -> bool:
        send_more()
        return len(one.queues(before)) == 4

    send_more()
    with Listener("shared", "a") as one:
        one.wait(4)
        began = time.monotonic()
        with Listener("shared", "b") as other:
            until("both consume", both_consume)
            joined_s = time.monotonic() - began
        began, before = time.monotonic(), len(one.received)
        until("one consumer has all queues", one_has_all)
        left_s = time.monotonic() - began
        until("all are consumed", lambda: len({*one.numbers(), *other.numbers()}) == sent)
    return f"{window('join', joined_s, 0, 21)}, {window('leave', left_s, 0, 21)}"


def consumer_restart(shared: Any) -> str:
    consume_and_leave(shared, "resumed")
    resume(shared, "resumed", 21)
    return ""


def broker_restart(shared: Any) -> str:
    consume_and_leave(shared, "survivors")
    ask({"restart": "broker"})
    began = time.monotonic()

    def is_back() -> bool:
        try:
            shared.send_sync(message("survivors", 20))
        except RocketMQException:
            return False
        return True

    until("the producer recovers", is_back)
    back_s = time.monotonic() - began
    resume(shared, "survivors", 20)
    return f"sent again after {back_s * 1000:.0f} ms"


def consume_and_leave(shared: Any, topic: str) -> None:
    for number in range(20):
        shared.send_sync(message(topic, number))
    with Listener(topic, "a") as listener:
        listener.wait(20)
        pause(SETTLE_S)


def resume(shared: Any, topic: str, first: int) -> None:
    """Consume what was sent since the consumer left, from the number `first` on, and nothing twice."""
    for number in range(21, 25):
        shared.send_sync(message(topic, number))
    with Listener(topic, "b") as listener:
        listener.wait(25 - first)
        pause(QUIET_S)
        same(listener.numbers(), list(range(first, 25)), "messages")


def pull(shared: Any) -> str:
    for number in range(40):
        shared.send_sync(message("pulled", number))
    consumer = PullConsumer("pulled-readers")
    consumer.set_namesrv_addr(NAMESRV)
    consumer.start()
    numbers = sorted(int(received["number"]) for received in consumer.pull("pulled", max_num=4))
    same(numbers, list(range(40)), "messages")
    consumer.shutdown()
    return ""


def too_large(_: Producer) -> str:
    large = producer(NAMESRV, "large-producers", max_message_size=8 << 20, compress_level=0)
    refused = message("large", 1)
    # Not to be compressed; and the client takes a body to end at its first zero.
    refused.set_body(os.urandom((4 << 20) + 1).replace(b"\0", b"\1"))
    try:
        large.send_sync(refused)
    except ProducerException:
        same(large.send_sync(message("large", 1)).status.name, "OK", "the next message")
        return ""
    finally:
        large.shutdown()
    raise AssertionError("a message of 4 MiB and one byte was stored")


def auto_create(shared: Any) -> str:
    offsets = [shared.send_sync(message("created-unasked", number)).offset for number in range(16)]
    same(offsets.count(0), 4, "queues")  # A send that was given up (RoutedProducer) has had its turn of a queue.
    return ""


def no_auto_create(_: Any) -> str:
    # All producers of a process share the nameserver of its first one.
    command = [sys.executable, __file__, STRICT_NAMESRV, "send-to-unknown-topic"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    check("No route info" in done.stdout, f"a message for an unknown topic: {done.stdout}")
    return ""


def send_to_unknown_topic() -> str:
    try:
        return str(producer(NAMESRV, "strict-producers").send_sync(message("nobody-made-this", 1)))
    except ProducerException as refused:
        return str(refused)


# -- parts -------------------------------------------------------------------------------------------------------------


class Listener:
    """A push consumer that keeps what it got, from `with` to its end."""

    def __init__(
        self,
        topic: str,
        instance: str = "a",
        *,
        expression: str = "*",
        orderly: bool = False,
        fails_once: bool = False,
        model: MessageModel = MessageModel.CLUSTERING,
    ) -> None:
        self.received: list[dict[str, Any]] = []
        self._topic = topic
        self._fails_once = fails_once
        self._consumer = PushConsumer(f"{topic}-readers", orderly=orderly, message_model=model)
        self._consumer.set_namesrv_addr(NAMESRV)
        self._consumer.set_instance_name(f"{topic}-{instance}")
        self._consumer.set_thread_count(1)
        self._consumer.subscribe(topic, self._keep, expression)

    def _keep(self, received: RecvMessage) -> None:
        self.received.append(
            {
                "at": time.monotonic(),
                "number": int(received["number"]),
                "topic": received.topic,
                "id": received.id,
                "tags": received.tags.decode(),
                "keys": received.keys.decode(),
                "body": received.body.decode(),
                "queue": received.queue_id,
                "offset": received.queue_offset,
                "born": received.born_timestamp,
                "times": received.reconsume_times,
                "spaced": received["spaced"].decode(),
                "umlaut": received["umlaut"].decode(),
            }
        )
        if self._fails_once and received.reconsume_times == 0:
            raise RuntimeError("this listener fails once, so the message comes again")

    def __enter__(self) -> "Listener":
        self._consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.shutdown()

    def wait(self, count: int) -> None:
        until(f"{count} messages of {self._topic}", lambda: len(self.received) >= count)

    def numbers(self) -> list[int]:
        return sorted(row["number"] for row in self.received)

    def has_number(self, number: int) -> bool:
        return number in self.numbers()

    def queues(self, after: int) -> set[int]:
        return {row["queue"] for row in self.received[after:]}


def producer(namesrv: str, group: str, **options: Any) -> Producer:
    made = Producer(group, **options)
    made.set_namesrv_addr(namesrv)
    made.start()
    return made


def message(topic: str, number: int) -> Message:
    made = Message(topic)
    made.set_property("number", str(number))
    made.set_body(f"body {number}")
    return made


def until(what: str, done: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        check(time.monotonic() < end, f"waited {PATIENCE_S} s in vain for: {what}")
        pause(0.01)


def pause(seconds: float) -> None:
    time.sleep(seconds)  # house: this is a user's program, and the client's threads say nothing when they are done


def check(fact: bool, otherwise: str) -> None:
    if not fact:
        raise AssertionError(otherwise)


def same(found: object, expected: object, what: str) -> None:
    check(found == expected, f"{what}: {found}, not {expected}")


def window(what: str, took_s: float, min_s: float, max_s: float) -> str:
    check(min_s <= took_s <= max_s, f"{what} after {took_s:.1f} s, not {min_s} to {max_s}")
    return f"{what} after {took_s * 1000:.0f} ms"


def tell(name: str, behaviour: Callable[[Any], str], shared: Any) -> None:
    began = time.monotonic()
    try:
        ok, detail = True, behaviour(shared)
    except Exception as error:  # noqa: BLE001 (one behaviour: its failure is its outcome)
        ok, detail = False, str(error) or repr(error)
    say({"behaviour": name, "ok": ok, "ms": round((time.monotonic() - began) * 1000), "detail": detail})


def ask(what: dict[str, Any]) -> None:
    say(what)
    check(bool(sys.stdin.readline()), "nobody answers")


def say(line: dict[str, Any]) -> None:
    with PRINTING:
        print(json.dumps(line), flush=True)


BEHAVIOURS = {
    "send-sync": send_sync,
    "send-async": send_async,
    "send-oneway": send_oneway,
    "send-batch": send_batch,
    "properties": properties,
    "tags": tags,
    "once-each": once_each,
    "retry": retry,
    "delay": delay,
    "timers": timers,
    "ordered": ordered,
    "broadcast": broadcast,
    "share-queues": share_queues,
    "consumer-restart": consumer_restart,
    "pull": pull,
    "too-large": too_large,
    "auto-create": auto_create,
    "no-auto-create": no_auto_create,
}
PRINTING = threading.Lock()


class RoutedProducer:
    """A producer whose sends wait until the native code has a route.

    That holds a topic's route by a weak pointer, and gives a request up that comes while another thread connects: a
    send ends with "No route info", before anything of it has left, when another thread puts a new route in the place of
    the one that it has just got. Nothing here is about that.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def send_async(self, message: Message, succeeded: Callable[[Any], object], failed: Callable[[Any], object]) -> None:
        def heard(refused: Any) -> None:
            if "No route info" in str(refused):
                threading.Timer(0.01, self.send_async, (message, succeeded, failed)).start()
            else:
                failed(refused)

        try:
            self._producer.send_async(message, succeeded, heard)
        except RocketMQException as refused:  # The library has no class for the status of this call.
            heard(refused)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._producer, name)

        def called(*arguments: Any) -> Any:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    return call(*arguments)
                except ProducerException as refused:
                    if "No route info" not in str(refused) or time.monotonic() > end:
                        raise
                    pause(0.01)

        return called


def main() -> None:
    shared = RoutedProducer(producer(NAMESRV, "driver-producers"))
    say({"behaviour": "sql92", "cannot": "the client has tags only"})
    say({"behaviour": "recall", "cannot": "the client has no recall"})
    say({"behaviour": "trace", "cannot": "the client offers no traces"})
    say({"behaviour": "queries", "cannot": "the client has no queries"})
    say({"behaviour": "transactions", "cannot": "the client has no transactions"})
    say({"behaviour": "request-reply", "cannot": "the client has no requests"})
    say({"behaviour": "lite-pull", "cannot": "the client has no lite pull consumer"})
    with ThreadPoolExecutor(len(BEHAVIOURS)) as threads:
        for name, behaviour in BEHAVIOURS.items():
            threads.submit(tell, name, behaviour, shared)
    tell("broker-restart", broker_restart, shared)
    os._exit(0)  # The native code has threads that don't end.


if __name__ == "__main__":
    NAMESRV, STRICT_NAMESRV = sys.argv[1:]
    if STRICT_NAMESRV == "send-to-unknown-topic":
        print(send_to_unknown_topic(), flush=True)
        os._exit(0)
    main()
