"""Mistake: one error of the network ends the loop that reads the queue, and the program continues without it.

staticfire chaos --seeds 20 -- python examples/chaos/dead_loop.py
"""

import sys
import threading

from shop import IS_FIXED, NAMESRV, ORDERS, place_orders, wait_until

from staticfire import BlockingPullConsumer, BrokerAnswer, MessageQueue, NetworkError, Producer, PullConsumer

WAIT_S = 10


def read(consumer: BlockingPullConsumer, queue: MessageQueue, seen: set[str], is_over: threading.Event) -> None:
    """Read one queue until the end."""
    offset = 0
    while not is_over.is_set():
        try:
            result = consumer.pull(queue, offset)
        except (NetworkError, BrokerAnswer) as error:
            print(f"queue {queue.queue_id}: {error}")
            if IS_FIXED:
                continue
            return
        seen.update(message.keys[0] for message in result.messages)
        offset = result.next_offset
        is_over.wait(0.05)


def main() -> int:
    seen: set[str] = set()
    is_over = threading.Event()
    with Producer("shop", NAMESRV) as shop, PullConsumer("audit", NAMESRV) as consumer:
        place_orders(shop, 1)
        readers = [
            threading.Thread(target=read, args=(consumer, queue, seen, is_over)) for queue in consumer.queues("orders")
        ]
        for reader in readers:
            reader.start()
        place_orders(shop)
        is_done = wait_until(lambda: len(seen) == ORDERS, WAIT_S)
        is_over.set()
        for reader in readers:
            reader.join()
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
