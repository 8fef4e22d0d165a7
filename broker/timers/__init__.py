"""Messages with a delivery time of their own, and their recall. RocketMQ: TimerMessageStore, RecallMessageProcessor.

They wait in rmq_sys_wheel_timer. Each entry of that queue contains the due time; in memory there is one number per
message.

- `forms.py`: what such a message requests, and its stored form; pure
- `waiting.py`: which messages wait, by due time, and which are done; pure
- `reading.py`: reads the records of due messages
- `recovery.py`: finds the waiting messages again after a start
- `service.py`: stores waiting messages, delivers them on time, recalls them
"""
