"""The blocking face of the client: `with Producer(...) as producer: producer.send(...)`, without asyncio.

Whatever is entered with `with` lives in an event loop in a thread of its own; its methods wait for that.

- face.py: the mechanism, for any client class
- producer.py, push_consumer.py, pull_consumer.py, lite_pull_consumer.py, admin.py, dead_letter_queue.py,
  transaction_producer.py, simple_consumer.py: which methods each class has
"""
