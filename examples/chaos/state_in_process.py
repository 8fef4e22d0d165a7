"""Mistake: each process remembers for itself what it has done. After a rebalance another one gets the queue.

staticfire chaos --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/state_in_process.py
"""

import sys
import threading

from shop import IS_FIXED, NAMESRV, ORDERS, invoice, place_orders, send_surely, wait_until

from staticfire import (
    BlockingProducer,
    ConsumeContext,
    ConsumeStatus,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.client import ClientSettings

lock = threading.Lock()


def member(name: str, shop: BlockingProducer, remembered: set[str], seen: set[str]) -> PushConsumer:
    """Return one process of the group; here it is a consumer with a memory of its own."""
    consumer = PushConsumer("billing", NAMESRV, PushSettings(client=ClientSettings(instance_name=name)))
    consumer.subscribe("orders")

    @consumer.listener
    def bill(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        with lock:
            for key in (message.keys[0] for message in messages):
                if key not in remembered:
                    send_surely(shop, invoice(key))
                    remembered.add(key)
                    seen.add(key)
        return ConsumeStatus.CONSUME_SUCCESS

    return consumer


def main() -> int:
    seen: set[str] = set()
    shared: set[str] = set()  # The fixed program has one memory for all, as a database would be.
    memories = [shared, shared] if IS_FIXED else [set[str](), set[str]()]
    with Producer("shop", NAMESRV) as shop:
        first, second = (member(f"billing-{n}", shop, memory, seen) for n, memory in enumerate(memories))
        with first, second:
            place_orders(shop)
            return 0 if wait_until(lambda: len(seen) == ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
