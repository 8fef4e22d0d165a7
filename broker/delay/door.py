"""The door to everything that waits: does this message wait, and in which form?

A message that isn't to be stored where it was sent to goes through here first, whoever sent it: a producer, a consumer
that gives it back, the broker itself. So there is one place that knows what makes a message wait.

What an ordinary message pays for it is one search of its properties for `MAY_WAIT`, in `sends/sending.py`.
"""

from msgspec.structs import replace

from staticfire.broker.delay.service import DelayService
from staticfire.broker.delay.stored_form import delayed
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.delay_levels import queue_of_level
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.protocol.times import MessageMs

MAY_WAIT = "DEL"
# Every property by which a message asks to wait has it in its name: DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS,
# TIMER_DELIVER_MS. A message that has it elsewhere comes here in vain.


class DelayDoor:
    """Decides which messages wait."""

    def __init__(self, store: MessageStore, delays: DelayService) -> None:
        self._store = store
        self._delays = delays

    def waits(self, record: NewRecord, stored_ms: MessageMs) -> NewRecord | None:
        """Return the record in the form and place in which it waits; None when it doesn't. Store it in this tick.

        Raises: BrokerAnswer (its level is no number, or its properties get too long), StorageError.
        """
        if not enters_consume_queue(record.sys_flag):
            return None  # prepared or rolled back: nobody is to see it
        queue = record.queue
        form = delayed(record.properties, queue.topic, queue.queue_id, self._delays.levels)
        if form is None:
            return None
        due_ms = self._delays.expect(form.level, stored_ms)
        home = self._store.queue(SCHEDULE_TOPIC, queue_of_level(form.level))
        return replace(record, queue=home, properties=form.properties, tags_code=due_ms)
