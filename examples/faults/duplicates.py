"""Where duplicates come from: answers to sends get lost, the program sends again, and its consumer sees both.

    python examples/faults/duplicates.py

A broker, a program that sends 60 orders, a group that counts what it gets. One answer in ten to a send is lost on its
way (`cluster.faults.add(drop="answer", probability=0.1)`): the order is stored, the producer doesn't know it, it is
sent again. The same orders have the same key, so a listener that remembers keys charges no customer twice.
"""

import sys
import threading
from collections import Counter

from staticfire import (
    BlockingProducer,
    Cluster,
    ConsumeContext,
    ConsumeStatus,
    Message,
    NetworkError,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
)

ORDERS = 60
TIMEOUT_MS = 500
# How long the program waits for an answer before it sends again.
WAIT_S = 30


def main() -> int:
    """Play it; return 0 when every order arrived, and those twice whose answer was lost."""
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=4)
        got: Counter[str] = Counter()
        consumed = threading.Semaphore(0)
        billing = PushConsumer("billing", cluster.namesrv)
        billing.subscribe("orders")

        @billing.listener
        def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            got.update(key for message in messages for key in message.keys)
            consumed.release(len(messages))
            return ConsumeStatus.CONSUME_SUCCESS

        settings = ProducerSettings(retry_times_when_send_failed=0, send_msg_timeout_ms=TIMEOUT_MS)
        with Producer("shop", cluster.namesrv, settings) as shop, billing:
            with cluster.faults.add(code="SEND_MESSAGE", drop="answer", probability=0.1, seed=4711) as lost:
                for number in range(ORDERS):
                    send(shop, Message("orders", b"1 book", keys=f"order-{number}"))
                hits = sum(lost.hits.values())
            is_complete = all(consumed.acquire(timeout=WAIT_S) for _ in range(ORDERS + hits))
        twice = sum(count - 1 for count in got.values())
        print(f"{ORDERS} orders, {hits} lost answers, {sum(got.values())} messages consumed, {twice} of them again")
        return 0 if is_complete and len(got) == ORDERS and twice == hits else 1


def send(shop: BlockingProducer, message: Message) -> None:
    """Send until a response says that it is stored."""
    while True:
        try:
            shop.send(message)
            return
        except NetworkError:
            pass  # Stored or not: the producer can't know.


if __name__ == "__main__":
    sys.exit(main())
