"""Mistake: when a send fails, the producer sends the order again under a new number. The first one may be stored.

staticfire chaos --seeds 20 --each 'requests -> orders by property request' -- python examples/chaos/new_id_on_retry.py
"""

import sys
import time
from itertools import count

from shop import IS_FIXED, NAMESRV, ORDERS, PACE_S, send_surely

from staticfire import BrokerAnswer, Message, NetworkError, Producer, ProducerSettings


def main() -> int:
    numbers = count()
    settings = ProducerSettings(retry_times_when_send_failed=0)
    with Producer("shop", NAMESRV, settings) as shop:
        for request in range(ORDERS):
            named = {"request": f"request-{request}"}
            send_surely(shop, Message("requests", b"1 book", properties=named))
            message = Message("orders", b"1 book", keys=f"order-{next(numbers)}", properties=named)
            if IS_FIXED:
                send_surely(shop, message)
            else:
                while True:
                    try:
                        shop.send(message)
                        break
                    except (BrokerAnswer, NetworkError):
                        message = Message("orders", b"1 book", keys=f"order-{next(numbers)}", properties=named)
            time.sleep(PACE_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
