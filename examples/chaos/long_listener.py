"""Mistake: the work takes longer than the message's invisible time when the service behind it is slow.

staticfire chaos --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/long_listener.py
"""

import sys
import threading
import time

from shop import IS_FIXED, NAMESRV, invoice, place_orders, send_surely, wait_until

from staticfire import BrokerAnswer, NetworkError, PoppedMessage, Producer, SimpleConsumer

ORDERS = 12
WORKERS = 4
INVISIBLE_MS = 1_200
WORK_S = 0.9


def main() -> int:
    seen: set[str] = set()
    begun: set[str] = set()
    lock = threading.Lock()
    is_over = threading.Event()
    billing = SimpleConsumer("billing", NAMESRV)
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop, billing as consumer:

        def work(message: PoppedMessage) -> None:
            key = message.keys[0]
            if IS_FIXED:
                consumer.change_invisible(message, INVISIBLE_MS * 20)
                with lock:  # Two copies of an order may be here at once.
                    is_new = key not in begun
                    begun.add(key)
                if not is_new:
                    consumer.ack(message)
                    return
            time.sleep(WORK_S)
            send_surely(shop, invoice(key))
            seen.add(key)
            consumer.ack(message)

        def bill() -> None:
            while not is_over.is_set():
                try:
                    for message in consumer.receive(1, INVISIBLE_MS, 200):
                        work(message)
                except (BrokerAnswer, NetworkError) as error:
                    print(f"not received or acknowledged: {error}")

        workers = [threading.Thread(target=bill) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        place_orders(shop, ORDERS)
        is_done = wait_until(lambda: len(seen) == ORDERS)
        time.sleep(INVISIBLE_MS / 1_000)
        is_over.set()
        for worker in workers:
            worker.join()
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
