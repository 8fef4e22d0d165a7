"""Messages that are delivered later.

- `door.py`: does this message wait? What sends and send-backs ask
- `stored_form.py`: how a message that waits lies in the log
- `queue.py`: which message is delivered next, and when
- `delivery.py`: stores what is due again, where it belongs
- `service.py`: delivers on time, and keeps how far that has come
"""
