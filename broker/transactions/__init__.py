"""Messages that are stored in two halves. RocketMQ: TransactionalMessageServiceImpl, TransactionalMessageCheckService.

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC, where no consumer sees it, until its producer commits it or rolls it
back; each end is a record of RMQ_SYS_TRANS_OP_HALF_TOPIC. Who says nothing is asked, in message time.

- `forms.py`: a half message, its final form, the record of an end, the question; pure
- `open_halves.py`: which half messages are open, when each is to be asked about, the newest in memory; pure
- `runs.py`: those that compiled parts take; `ending.py`: one record for all that a burst ends
- `service.py`: stores them, ends them; `questions.py`: asks about them; `kept.py`: finds them again after a start
- `aside.py`: those that nobody ended in time, and may be committed all the same
"""
