"""Messages taken for a while: popped, acknowledged, or handed out again. RocketMQ: PopMessageProcessor and what is
around it.

What a pop takes of a queue is a check-point; the group's offset moves at once. A message that isn't acknowledged in its
invisible time is stored again, in the POP retry topic of (group, topic). Each change is an event in the broker's log,
in a system topic, written with the burst that it belongs to and before anybody hears of it: so a kill loses none, and a
copy and the end of its check-point are stored together. There are no revive queues: clients don't see them.

- `door.py`: the face; loads the rest when somebody pops for the first time
- `service.py`: puts the parts together; `tables.py`: what they share
- `events.py`: what the log says of POP; pure
- `pop_log.py`: writes it, burst by burst
- `kept.py`: reads it at a start; says from where on it is needed
- `in_flight.py`: what was taken and isn't done, by due time; pure
- `orders.py`: what was taken in order; pure
- `checks.py`: what requests have to pass
- `taking.py`: one pop, queue by queue; `answers.py`: what comes of it as the client reads it
- `acks.py`: messages that are done, or hidden for longer
- `looking.py`: what a pop would find
- `held.py`: pops and notifications that wait; pure. `holding.py`: holds them, and looks again
- `returning.py`: the invisible time is over: a copy, or a dead letter; `copying.py`: copies, many at a time
- `assignment.py`: who takes which queues, decided by the broker; pure. `request_modes.py`: by pulls or by pops
"""
