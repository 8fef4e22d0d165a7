"""What the programs of this folder share: a shop that places orders, and a wait for the end of the work."""

import os
import sys
import time
from collections.abc import Callable

from staticfire import BlockingProducer, BrokerAnswer, Message, NetworkError

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
ORDERS = 30
IS_FIXED = "--fixed" in sys.argv
PACE_S = 0.02
WAIT_S = 60
QUIET_S = 0.3


def place_orders(producer: BlockingProducer, orders: int = ORDERS) -> None:
    """Send orders, each with its number as key, until each is stored."""
    for number in range(orders):
        send_surely(producer, Message("orders", b'{"total": 12.5}', keys=f"order-{number}"))
        time.sleep(PACE_S)


def send_surely(producer: BlockingProducer, message: Message) -> None:
    """Send the same message again until a broker has confirmed it."""
    while True:
        try:
            producer.send(message)
            return
        except (NetworkError, BrokerAnswer):
            time.sleep(0.1)


def invoice(key: str) -> Message:
    """Return the invoice of an order."""
    return Message("invoices", b"please pay", keys=key)


def wait_until(condition: Callable[[], object], seconds: float = WAIT_S) -> bool:
    """Wait until a condition holds, and a little longer: duplicates come late. Return whether it holds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    time.sleep(QUIET_S)
    return True
