"""Mistake: the producer of transactions answers every check with a rollback, also when its transaction has succeeded.

staticfire chaos --only lost-end -- python examples/chaos/half_without_check.py
"""

import sys
import time

from shop import IS_FIXED, NAMESRV, PACE_S, wait_until

from staticfire import (
    BrokerAnswer,
    ConsumeContext,
    ConsumeStatus,
    Message,
    NetworkError,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)

ORDERS = 10
CHECKED_S = 12


def main() -> int:
    paid: set[str] = set()  # The program's database.
    seen: set[str] = set()

    def pay(message: Message, _: object) -> TransactionState:
        paid.add(message.keys[0])
        return TransactionState.COMMIT

    def is_paid(message: ReceivedMessage) -> TransactionState:
        if IS_FIXED and message.keys[0] in paid:
            return TransactionState.COMMIT
        return TransactionState.ROLLBACK

    shipping = PushConsumer("shipping", NAMESRV)
    shipping.subscribe("orders")

    @shipping.listener
    def ship(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        seen.update(message.keys[0] for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    with TransactionProducer("shop", NAMESRV, check=is_paid) as shop, shipping:
        for number in range(ORDERS):
            message = Message("orders", b"1 book", keys=f"order-{number}")
            while message.keys[0] not in paid:
                try:
                    shop.send_in_transaction(message, pay)
                except (BrokerAnswer, NetworkError):
                    time.sleep(0.1)
            time.sleep(PACE_S)
        is_done = wait_until(lambda: len(seen) == ORDERS, CHECKED_S)
    print(f"{len(paid)} paid, {len(seen)} shipped")
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
