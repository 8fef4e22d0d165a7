"""Mistake, in a gRPC client: each delivery makes an invoice. With `--fixed`, it remembers the keys of finished orders.

It needs `pip install rocketmq-python-client`. `--push`: with a push consumer instead of a simple one.

    staticfire chaos --topic orders --topic invoices --each 'orders -> invoices by key' -- python not_idempotent.py
"""

import os
import sys
import threading
import time
from typing import Any

from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import ConsumeResult, MessageListener, PushConsumer, SimpleConsumer
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer

ORDERS, PACE_S, WAIT_S, QUIET_S = 20, 0.02, 60, 0.5
INVISIBLE_S, AWAIT_S, BATCH = 10, 2, 8
IS_FIXED, IS_PUSH = "--fixed" in sys.argv, "--push" in sys.argv


def main() -> int:
    producer = Producer(configuration(), ["orders", "invoices"])
    producer.startup()
    billing = Billing(producer)
    consumer = billing.pushed() if IS_PUSH else billing.received()
    for number in range(ORDERS):
        send_surely(producer, "orders", f"order-{number}")
        time.sleep(PACE_S)
    until = time.monotonic() + WAIT_S
    while len(billing.done) < ORDERS and time.monotonic() < until:
        time.sleep(PACE_S)
    time.sleep(QUIET_S)
    del consumer
    return 0 if len(billing.done) == ORDERS else 1


class Billing(MessageListener):  # type: ignore[misc]
    """Sends an invoice for each order."""

    def __init__(self, producer: Any) -> None:
        self.done: set[str] = set()
        self._producer = producer
        self._lock = threading.Lock()

    def consume(self, message: Any) -> Any:
        [key] = message.keys
        with self._lock:
            if not IS_FIXED or key not in self.done:
                send_surely(self._producer, "invoices", key)
                self.done.add(key)
        return ConsumeResult.SUCCESS

    def pushed(self) -> Any:
        consumer = PushConsumer(configuration(), "billing", self, {"orders": FilterExpression()})
        consumer.startup()
        return consumer

    def received(self) -> Any:
        consumer = SimpleConsumer(configuration(), "billing", {"orders": FilterExpression()}, await_duration=AWAIT_S)
        consumer.startup()
        threading.Thread(target=self._receive, args=[consumer], daemon=True).start()
        return consumer

    def _receive(self, consumer: Any) -> None:
        while True:
            try:
                messages = consumer.receive(BATCH, INVISIBLE_S)
            except Exception:  # noqa: BLE001 (any error of the network: try again)
                time.sleep(PACE_S)
                continue
            for message in messages:
                self.consume(message)
                try:
                    consumer.ack(message)
                except Exception:  # noqa: BLE001 (it will be delivered again)
                    pass


def send_surely(producer: Any, topic: str, key: str) -> None:
    """Send the same message again until it is stored."""
    message = Message()
    message.topic, message.keys, message.body = topic, key, b"please pay"
    while True:
        try:
            producer.send(message)
            return
        except Exception:  # noqa: BLE001 (any error: try again)
            time.sleep(PACE_S)


def configuration() -> Any:
    return ClientConfiguration(os.environ["ROCKETMQ_ENDPOINT"], Credentials("", ""))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Some threads of the client don't end.
