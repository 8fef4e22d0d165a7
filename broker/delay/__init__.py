"""Messages that are delivered later.

- `stored_form.py`: the stored form of a waiting message
- `level_history.py`: the levels that due times were computed with, also former ones
- `queue.py`: which message is delivered next, and when
- `delivery.py`: stores due messages again in their real queues
- `service.py`: delivers on time, and saves the progress
"""
