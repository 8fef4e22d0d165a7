"""Mistake: duplicates are recognised by the id that a broker gives each copy, and not by the unique id or the key.

staticfire chaos --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/wrong_id.py
"""

import sys
import threading

from shop import IS_FIXED, NAMESRV, ORDERS, invoice, place_orders, send_surely, wait_until

from staticfire import ConsumeContext, ConsumeStatus, Producer, PushConsumer, ReceivedMessage


def main() -> int:
    done: set[str] = set()
    seen: set[str] = set()
    lock = threading.Lock()
    billing = PushConsumer("billing", NAMESRV)
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop:

        @billing.listener
        def bill(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            with lock:
                for message in messages:
                    key = message.keys[0]
                    known_by = key if IS_FIXED else message.offset_message_id
                    if known_by not in done:
                        send_surely(shop, invoice(key))
                        done.add(known_by)
                        seen.add(key)
            return ConsumeStatus.CONSUME_SUCCESS

        with billing:
            place_orders(shop)
            return 0 if wait_until(lambda: len(seen) == ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
