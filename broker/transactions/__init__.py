"""Messages that are stored in two halves. RocketMQ: TransactionalMessageServiceImpl, TransactionalMessageCheckService.

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC, where no consumer sees it, until its producer commits it or rolls it
back; each end is a record of RMQ_SYS_TRANS_OP_HALF_TOPIC. Who says nothing is asked, in message time.

- `forms.py`: a half message, its final form, the record of an end, the question; pure
- `open_halves.py`: which half messages are open, and when each is to be asked about; pure
- `service.py`: stores them, ends them, asks; `kept.py`: finds them again after a start
"""
