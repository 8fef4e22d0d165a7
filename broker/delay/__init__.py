"""Messages that are delivered later.

- `stored_form.py`: the stored form of a waiting message
- `queue.py`: which message is delivered next, and when
- `delivery.py`: stores due messages again in their real queues
- `service.py`: delivers on time, and saves the progress
"""
