"""Mistake: many messages are received at once and acknowledged at the end, when their handles have expired.

staticfire chaos --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/late_ack.py
"""

import sys
import threading
import time

from shop import IS_FIXED, NAMESRV, invoice, place_orders, send_surely, wait_until

from staticfire import BrokerAnswer, NetworkError, Producer, SimpleConsumer

ORDERS = 24
BATCH = 8
INVISIBLE_MS = 1_000
WORK_S = 0.08


def main() -> int:
    seen: set[str] = set()
    is_over = threading.Event()
    billing = SimpleConsumer("billing", NAMESRV)
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop, billing as consumer:

        def bill_once() -> None:
            messages = consumer.receive(1 if IS_FIXED else BATCH, INVISIBLE_MS * (20 if IS_FIXED else 1), 200)
            for message in messages:
                key = message.keys[0]
                if not (IS_FIXED and key in seen):
                    time.sleep(WORK_S)
                    send_surely(shop, invoice(key))
                    seen.add(key)
            for message in messages:
                consumer.ack(message)

        def bill() -> None:
            while not is_over.is_set():
                try:
                    bill_once()
                except (BrokerAnswer, NetworkError) as error:
                    print(f"not received or acknowledged: {error}")

        worker = threading.Thread(target=bill)
        worker.start()
        place_orders(shop, ORDERS)
        is_done = wait_until(lambda: len(seen) == ORDERS)
        time.sleep(INVISIBLE_MS / 1_000)
        is_over.set()
        worker.join()
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
