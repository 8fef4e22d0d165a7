"""The simple consumer without asyncio.

with SimpleConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
    consumer.subscribe("orders")
    for message in consumer.receive(max_messages=16, invisible_ms=30_000, await_ms=5_000):
        bill(message)
        consumer.ack(message)
"""

from staticfire.client.blocking.face import BlockingFace, blocking, on_loop
from staticfire.client.pop.simple_consumer import SimpleConsumer


class BlockingSimpleConsumer(BlockingFace[SimpleConsumer]):
    """One member of a consumer group that receives messages one by one. Any number of threads may use it."""

    subscribe = on_loop(SimpleConsumer.subscribe)
    unsubscribe = on_loop(SimpleConsumer.unsubscribe)
    receive = blocking(SimpleConsumer.receive)
    ack = blocking(SimpleConsumer.ack)
    ack_all = blocking(SimpleConsumer.ack_all)
    change_invisible = blocking(SimpleConsumer.change_invisible)
