"""Messages with a delivery time of their own, and their recall. RocketMQ: TimerMessageStore, RecallMessageProcessor.

They wait in rmq_sys_wheel_timer, each entry of that queue with its due time; in memory is a number for each.

- `forms.py`: what such a message asks for, and how it lies in the log; pure
- `waiting.py`: which ones wait, by due time, and which are done; pure
- `reading.py`: the records of those whose time has come
- `kept.py`: finds that again after a start
- `service.py`: lets them wait, delivers them on time, recalls them
"""
