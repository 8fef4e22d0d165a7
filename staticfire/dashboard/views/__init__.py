"""What each page shows, made from responses of the control endpoint.

- `page_call.py`: one request for a page; `tables.py`: sorting, pages and filters of tables
- `overview.py`, `topics.py`, `groups.py`, `clients.py`, `messages.py`, `letters.py`, `clock.py`, `faults.py`,
  `journal.py`
- `waiting.py`: open transactions, popped messages, traces
- `picture.py`: the picture of a group's members and their queues
"""
