"""Mistake: the steps of an order go to different queues, and the consumer counts on their order.

staticfire chaos --seeds 20 -- python examples/chaos/across_queues.py
"""

import sys
import threading
import time

from shop import IS_FIXED, NAMESRV, PACE_S, send_surely, wait_until

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
    by_hash,
)

STEPS = ("created", "paid", "shipped")
ORDERS = 12


def main() -> int:
    state: dict[str, int] = {}
    wrong: list[str] = []
    lock = threading.Lock()
    shipping = PushConsumer("shipping", NAMESRV)
    shipping.subscribe("steps")

    @shipping.ordered_listener
    def ship(messages: tuple[ReceivedMessage, ...], _: OrderedContext) -> OrderedStatus:
        with lock:
            for message in messages:
                key, step = message.keys[0], STEPS.index(message.body.decode())
                if step > state.get(key, -1) + 1:
                    wrong.append(f"{key} is {STEPS[step]} before it is {STEPS[step - 1]}")
                state[key] = max(step, state.get(key, -1))
        return OrderedStatus.SUCCESS

    with Producer("shop", NAMESRV) as shop, shipping:
        for step in STEPS:  # Afterwards the topic is there, and all queues have their consumer.
            send_in_order(shop, Message("steps", step.encode(), keys="first"))
        wait_until(lambda: state.get("first") == len(STEPS) - 1)
        for number in range(ORDERS):
            for step in STEPS:
                message = Message("steps", step.encode(), keys=f"order-{number}")
                if IS_FIXED:
                    send_in_order(shop, message)
                else:
                    send_surely(shop, message)
                time.sleep(PACE_S)
        is_done = wait_until(lambda: sum(state.values()) == (ORDERS + 1) * (len(STEPS) - 1))
    print("\n".join(wrong))
    return 0 if is_done and not wrong else 1


def send_in_order(shop: BlockingProducer, message: Message) -> None:
    """Send all steps of an order to the same queue."""
    while True:
        try:
            shop.send(message, selector=by_hash, key=message.keys[0])
            return
        except (NetworkError, BrokerAnswer):
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
