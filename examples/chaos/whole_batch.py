"""Mistake: when one message of a batch fails, the whole batch is consumed again, with the messages that had succeeded.

staticfire chaos --weather rough --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/whole_batch.py
"""

import sys
import threading

from shop import IS_FIXED, NAMESRV, ORDERS, invoice, place_orders, wait_until

from staticfire import (
    BrokerAnswer,
    ConsumeContext,
    ConsumeStatus,
    NetworkError,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)


def main() -> int:
    seen: set[str] = set()
    billing = PushConsumer("billing", NAMESRV, PushSettings(consume_threads=1, consume_message_batch_max_size=16))
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop:
        lock = threading.Lock()

        @billing.listener
        def bill(messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
            context.delay_level_when_next_consume = 1
            try:
                with lock:
                    for message in messages:
                        key = message.keys[0]
                        if not (IS_FIXED and key in seen):
                            shop.send(invoice(key))
                            seen.add(key)
            except (BrokerAnswer, NetworkError) as error:
                print(f"a batch of {len(messages)} has failed: {error}")
                return ConsumeStatus.RECONSUME_LATER
            return ConsumeStatus.CONSUME_SUCCESS

        place_orders(shop)
        with billing:
            return 0 if wait_until(lambda: len(seen) == ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
