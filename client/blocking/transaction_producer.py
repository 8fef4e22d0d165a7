"""The producer of transactions without asyncio.

    with TransactionProducer("orders", namesrv="127.0.0.1:9876", check=is_paid) as producer:
        producer.send_in_transaction(Message("orders", b"..."), pay)

Functions of the program's are called in the client's thread: one that takes long is a coroutine function, or leaves
its work to a thread of its own.
"""

from staticfire.client.blocking.face import blocking
from staticfire.client.blocking.producer import BlockingProducer
from staticfire.client.produce.transaction_producer import TransactionProducer


class BlockingTransactionProducer(BlockingProducer):
    """Sends messages, also in transactions. Any number of threads may use it."""

    send_in_transaction = blocking(TransactionProducer.send_in_transaction)
