"""Mistake: the listener catches the exception, logs it and reports success. RocketMQ can't know that the work failed.

staticfire chaos --weather rough --seeds 20 --each 'orders -> invoices by key' -- python examples/chaos/swallowed.py
"""

import sys

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
    billing = PushConsumer("billing", NAMESRV, PushSettings(consume_threads=1))
    billing.subscribe("orders")
    with Producer("shop", NAMESRV) as shop:

        @billing.listener
        def bill(messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
            key = messages[0].keys[0]
            if IS_FIXED and key in seen:
                return ConsumeStatus.CONSUME_SUCCESS
            try:
                shop.send(invoice(key))
            except (BrokerAnswer, NetworkError) as error:
                print(f"{key} has no invoice: {error}")
                if IS_FIXED:
                    context.delay_level_when_next_consume = 1
                    return ConsumeStatus.RECONSUME_LATER
            seen.add(key)
            return ConsumeStatus.CONSUME_SUCCESS

        with billing:
            place_orders(shop)
            return 0 if wait_until(lambda: len(seen) == ORDERS) else 1


if __name__ == "__main__":
    sys.exit(main())
