"""Transactions: messages stored in two halves.

RocketMQ: TransactionalMessageServiceImpl, TransactionalMessageCheckService.

A half message is stored in RMQ_SYS_TRANS_HALF_TOPIC, where no consumer sees it, until its producer commits it or rolls
it back. Each of these ends is a record of RMQ_SYS_TRANS_OP_HALF_TOPIC. If a producer does neither, the broker checks
with it, in message time.

- `forms.py`: a half message, its final form, the record of an end, the check request; pure
- `open_halves.py`: which half messages are open, when each must be checked, the newest in memory; pure
- `runs.py`: transactions that the compiled parts handle; `ending.py`: one record for all ends of a burst
- `service.py`: stores and ends them; `checks.py`: checks them; `recovery.py`: finds them again after a start
- `expired_halves.py`: half messages that were not ended in time, and may still be committed
"""
