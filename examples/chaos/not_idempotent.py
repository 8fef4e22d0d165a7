"""Mistake: each delivery makes an invoice, although RocketMQ may deliver a message twice.

staticfire chaos --seeds 20 --until-broken --each 'orders -> invoices by key' -- python examples/chaos/not_idempotent.py
"""

import sys
import threading

from shop import IS_FIXED, NAMESRV, ORDERS, invoice, place_orders, send_surely, wait_until

from staticfire import ConsumeContext, ConsumeStatus, Producer, PushConsumer, ReceivedMessage


def main() -> int:
    done: set[str] = set()
    lock = threading.Lock()
    billing = PushConsumer("billing", NAMESRV)
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop:

        @billing.listener
        def bill(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            for message in messages:
                key = message.keys[0]
                with lock:
                    if IS_FIXED and key in done:
                        continue
                    send_surely(shop, invoice(key))
                    done.add(key)
            return ConsumeStatus.CONSUME_SUCCESS

        with billing:
            place_orders(shop)
            return 0 if wait_until(lambda: len(done) == ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
