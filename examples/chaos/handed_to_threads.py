"""Mistake: an ordered listener hands its messages to threads and reports success. Their order is lost.

    staticfire chaos --seeds 20 --each 'orders -> invoices by key, at least one, in order' -- \
        python examples/chaos/handed_to_threads.py
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from shop import IS_FIXED, NAMESRV, ORDERS, PACE_S, invoice, wait_until

from staticfire import (
    BlockingProducer,
    BrokerAnswer,
    Message,
    NetworkError,
    OrderedContext,
    OrderedStatus,
    Producer,
    PushConsumer,
    ReceivedMessage,
)


def send_to_first_queue(shop: BlockingProducer, message: Message) -> None:
    """Send until it is stored, always to the same queue."""
    while True:
        try:
            shop.send(message, selector=lambda queues, _, __: queues[0])
            return
        except (NetworkError, BrokerAnswer):
            threading.Event().wait(0.1)


def main() -> int:
    seen: set[str] = set()
    billing = PushConsumer("billing", NAMESRV)
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop, Producer("billing", NAMESRV) as out, ThreadPoolExecutor(4) as threads:

        def work(key: str) -> None:
            send_to_first_queue(out, invoice(key))
            seen.add(key)

        @billing.ordered_listener
        def bill(messages: tuple[ReceivedMessage, ...], _: OrderedContext) -> OrderedStatus:
            for key in (message.keys[0] for message in messages):
                if key in seen:
                    continue
                if IS_FIXED:
                    work(key)
                else:
                    threads.submit(work, key)
            return OrderedStatus.SUCCESS

        with billing:
            for number in range(ORDERS):
                send_to_first_queue(shop, Message("orders", b"1 book", keys=f"order-{number}"))
                threading.Event().wait(PACE_S)
            return 0 if wait_until(lambda: len(seen) == ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
