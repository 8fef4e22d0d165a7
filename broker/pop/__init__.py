"""POP: messages are popped for a limited time, then acknowledged or redelivered. RocketMQ: PopMessageProcessor and
related classes.

What a pop takes from a queue is a check-point; the group's offset moves at once. A message that isn't acknowledged
within its invisible time is stored again, as a copy in the POP retry topic of (group, topic). Each change is an event
in a system topic of the broker's log. It is written with the burst that it belongs to, before the response is sent. So
a kill loses no event, and a copy is stored together with the end of its check-point. There are no revive queues:
clients don't see them.

- `lazy_service.py`: the interface of POP for the rest of the broker; imports the other modules at the first pop
- `service.py`: puts the parts together; `tables.py`: the tables that they share
- `events.py`: the events of POP in the log; pure
- `pop_log.py`: writes the events, burst by burst
- `recovery.py`: reads the events at the start, and keeps short what must be read
- `in_flight.py`: popped messages that are not done, by due time; pure
- `orders.py`: messages that were popped in order; pure
- `checks.py`: the checks of requests
- `fetching.py`: one pop, queue by queue; `answers.py`: the records of its response
- `acks.py`: acknowledgements and changes of the invisible time
- `peeking.py`: what a pop would find
- `held.py`: pops and notifications that wait; pure. `holding.py`: holds them and tries them again
- `returning.py`: redelivers messages whose invisible time is over, or makes them dead letters; `copying.py`: makes the
  copies, many at a time
- `assignment.py`: assigns queues to clients; pure. `request_modes.py`: whether a group pulls or pops
"""
