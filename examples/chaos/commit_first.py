"""Mistake: the offset is committed before the work is done. A crash or a failed send in between loses the message.

staticfire chaos --weather rough --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/commit_first.py
"""

import sys
import threading

from shop import IS_FIXED, NAMESRV, ORDERS, invoice, place_orders, send_surely, wait_until

from staticfire import BrokerAnswer, LitePullConsumer, LitePullSettings, NetworkError, Producer


def main() -> int:
    seen: set[str] = set()
    is_over = threading.Event()
    settings = LitePullSettings(auto_commit=False)
    billing = LitePullConsumer("billing", NAMESRV, settings)
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop, billing as consumer:

        def bill_once() -> None:
            keys = [message.keys[0] for message in consumer.poll(200)]
            if keys:
                consumer.commit()
            for key in keys:
                if key not in seen:
                    shop.send(invoice(key))
                    seen.add(key)

        def bill_surely() -> None:
            keys = [message.keys[0] for message in consumer.poll(200)]
            for key in keys:
                if key not in seen:
                    send_surely(shop, invoice(key))
                    seen.add(key)
            if keys:
                consumer.commit()

        def bill() -> None:
            while not is_over.is_set():
                try:
                    bill_surely() if IS_FIXED else bill_once()
                except (BrokerAnswer, NetworkError) as error:
                    print(f"this batch has failed: {error}")

        worker = threading.Thread(target=bill)
        worker.start()
        place_orders(shop)
        is_done = wait_until(lambda: len(seen) == ORDERS)
        is_over.set()
        worker.join()
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
