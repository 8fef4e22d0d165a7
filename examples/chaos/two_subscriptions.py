"""Mistake: two members of a group subscribe to different tags. Each gets queues with messages for the other.

staticfire chaos -- python examples/chaos/two_subscriptions.py
"""

import sys
import time

from shop import IS_FIXED, NAMESRV, PACE_S, send_surely

from staticfire import ConsumeContext, ConsumeStatus, Message, Producer, PushConsumer, PushSettings, ReceivedMessage
from staticfire.client import ClientSettings

ORDERS = 24
LATER_S = 3


def member(name: str, group: str, tags: str) -> PushConsumer:
    consumer = PushConsumer(group, NAMESRV, PushSettings(client=ClientSettings(instance_name=name)))
    consumer.subscribe("orders", tags)

    @consumer.listener
    def note(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    return consumer


def main() -> int:
    groups = ("paid-orders", "refunded-orders") if IS_FIXED else ("orders", "orders")
    with (
        Producer("shop", NAMESRV) as shop,
        member("one", groups[0], "paid"),
        member("two", groups[1], "refunded"),
    ):
        for number in range(ORDERS):
            tag = "refunded" if number % 2 else "paid"
            send_surely(shop, Message("orders", b"1 book", tags=tag, keys=f"order-{number}"))
            time.sleep(PACE_S)
        time.sleep(LATER_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
