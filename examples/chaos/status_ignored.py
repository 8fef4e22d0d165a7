"""Mistake: the producer doesn't look at what became of a send. A refused message is lost without a notice.

staticfire chaos --weather rough --seeds 20 -- python examples/chaos/status_ignored.py
"""

import contextlib
import sys
import time

from shop import IS_FIXED, NAMESRV, ORDERS, PACE_S, send_surely

from staticfire import BrokerAnswer, Message, NetworkError, Producer


def main() -> int:
    with Producer("shop", NAMESRV) as shop:
        for number in range(ORDERS):
            message = Message("orders", b'{"total": 12.5}', keys=f"order-{number}")
            if IS_FIXED:
                send_surely(shop, message)
            else:
                with contextlib.suppress(BrokerAnswer, NetworkError):
                    shop.send(message)
            time.sleep(PACE_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
