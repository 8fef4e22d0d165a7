"""Decide whether a message must wait because of its delay level, and in which form.

`sends/intake.py` calls this for every message that may have to wait, whether it comes from a producer, from a consumer
that sends it back, or from the broker itself. A delivery time of its own is checked after that, by `timers/service.py`.

An ordinary message costs only one search of its properties for `MAY_WAIT`, in `sends/sending.py`.
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

# Part of the name of every property that requests a delay: DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS. A
# message that contains it elsewhere is checked here, too, and doesn't wait.
MAY_WAIT = "DEL"


class DelayDoor:
    """Decides which messages wait because of their delay level."""

    def __init__(self, store: MessageStore, delays: DelayService) -> None:
        self._store = store
        self._delays = delays

    def waits(self, record: NewRecord, stored_ms: MessageMs) -> NewRecord | None:
        """Return the record in the form and queue in which it waits; None if it doesn't wait. Store it in this tick.

        Raises: BrokerAnswer (its level is no number, or its properties get too long), StorageError.
        """
        if not enters_consume_queue(record.sys_flag):
            return None  # The message was prepared or rolled back: no consumer may see it.
        queue = record.queue
        form = delayed(record.properties, queue.topic, queue.queue_id, self._delays.levels)
        if form is None:
            return None
        due_ms = self._delays.expect(form.level, stored_ms)
        home = self._store.queue(SCHEDULE_TOPIC, queue_of_level(form.level))
        return replace(record, queue=home, properties=form.properties, tags_code=due_ms)
