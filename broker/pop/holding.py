"""Hold pops and notifications. Try them again when a message arrives, when a queue becomes free, and at the deadline.

During a burst a wake-up is only noted. At the end of the burst `settled` takes one held request for each key and tries
it. A request that gets nothing is held again until its old deadline.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from staticfire.broker.clock.due_loop import wait_for
from staticfire.broker.pop.events import GroupQueue
from staticfire.broker.pop.held import HeldPop, HeldPops, Key
from staticfire.broker.pulls.checks import Wanted
from staticfire.broker.pulls.choosing import Choice
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.pop import ALL_QUEUES, PopMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.dispatcher import Call

# A held request is answered this much before its client's timeout.
EARLY_MS = 50
ARRIVALS_LOOKED_AT_MAX = 800

LookAgain = Callable[[HeldPop, bool], bool]
"""Tries a held request again; the second argument: whether it is the last try. Returns False if it found nothing."""


class Holding:
    """Holds the waiting requests of one broker."""

    def __init__(
        self, state: BrokerState, settle: Callable[[], None], look_pop: LookAgain, look_notification: LookAgain
    ) -> None:
        """`settle` writes the burst."""
        self._state = state
        self._settle = settle
        self._look_pop = look_pop
        self._look_notification = look_notification
        self._uptime_ms = state.machine.clock.uptime_ms
        self.pops = HeldPops()
        self.notifications = HeldPops(takes_last=True)
        self._awake = asyncio.Event()
        self._wakes: list[tuple[str, Key]] = []

    # -- holding -------------------------------------------------------------------------------------------------

    def is_full(self, held: HeldPops, topic: str, key: Key) -> bool:
        """Return whether no more can be held, with this key or in total."""
        settings = self._state.settings
        return held.count_of(topic, key) > settings.pop_polling_size or held.count >= settings.max_pop_polling_size

    def hold(self, held: HeldPops, call: Call, left_ms: int, wanted: Wanted = None) -> None:
        """Hold a request for this time."""
        request = call.request
        key = request.consumer_group, request.queue_id
        held.hold(HeldPop(call, request.topic, key, UptimeMs(self._uptime_ms() + left_ms), wanted))
        self._awake.set()

    def forget(self, connection: object) -> None:
        """Drop the requests of a closed connection."""
        for held in (self.pops, self.notifications):
            held.drop(lambda pop: pop.call.connection is connection)

    async def loop(self) -> None:
        """Loop: answer requests at their deadlines."""
        while True:
            self._awake.clear()
            deadlines = [held.next_deadline_ms() for held in (self.pops, self.notifications)]
            dues = [deadline for deadline in deadlines if deadline is not None]
            pause_ms = max(0, min(dues) - self._uptime_ms()) if dues else None
            if pause_ms == 0:
                self._expire()
                self._settle()
                await asyncio.sleep(0)
            else:
                await wait_for(self._awake, pause_ms)

    def _expire(self) -> None:
        now_ms = self._uptime_ms()
        for pop in self.pops.expire(now_ms):
            self._look(pop, True)
        for notification in self.notifications.expire(now_ms):
            self._look(notification, True)

    def end_all(self) -> None:
        """Try all requests the last time: the broker stops."""
        for pop in [*self.pops.take_all(), *self.notifications.take_all()]:
            self._look(pop, True)

    # -- waking --------------------------------------------------------------------------------------------------

    def wake(self, topic: str, key: Key) -> None:
        """Try one pop with this key again at the end of the burst."""
        self._wakes.append((topic, key))

    def wake_group(self, topic: str, group: str) -> None:
        """Do the same for one pop and one notification of a group, of any key."""
        for held in (self.pops, self.notifications):
            self._wakes += [(topic, key) for key in held.keys_of_group(topic, group)[:1]]

    def wake_queue(self, place: GroupQueue) -> None:
        """Do the same for a queue that has become free."""
        for queue_id in (ALL_QUEUES, place.queue_id):
            self.wake(place.topic, (place.group, queue_id))

    def settled(self, arrivals: Mapping[Queue, int]) -> None:
        """Handle the end of a burst: wake the requests that its messages are for."""
        if self.pops.count or self.notifications.count:
            for queue, first in arrivals.items():
                self._arrived(queue, first)
        while self._wakes:
            wakes, self._wakes = self._wakes, []
            for topic, key in wakes:
                self._wake_one(self.pops, topic, key, _always)
                self._wake_one(self.notifications, topic, key, _always)

    def _arrived(self, queue: Queue, first: int) -> None:
        topic, queue_id = queue.topic, queue.queue_id
        fits = partial(self._fits, queue, first)
        for key in self.pops.keys_of(topic, queue_id):
            self._wake_one(self.pops, topic, key, fits)
        for key in self.notifications.keys_of(topic, queue_id):
            self._wake_one(self.notifications, topic, key, _always)

    def _wake_one(self, held: HeldPops, topic: str, key: Key, fits: Callable[[HeldPop], bool]) -> None:
        pop = held.take(topic, key, fits)
        if pop is not None:
            self._look(pop, False)

    def _fits(self, queue: Queue, first: int, pop: HeldPop) -> bool:
        """Return whether a pop wants a message that arrived. The try itself checks conditions over properties."""
        wanted = pop.wanted
        if wanted is None or isinstance(wanted, Choice):
            return True
        try:
            entries = self._state.store.entries(queue, first, ARRIVALS_LOOKED_AT_MAX)
        except StorageError:
            return True
        return any(wanted(entry.tags_code) for entry in entries)

    def _look(self, pop: HeldPop, is_last: bool) -> None:
        """Try a request again, if its peer accepts responses. Hold it until its old deadline if it gets nothing."""
        connection = pop.call.connection
        if not connection.is_open:
            return
        if not connection.takes_answers:
            connection.when_taken(partial(self._look_late, pop))
            return
        is_pop = isinstance(pop.call.request, PopMessage)
        look = self._look_pop if is_pop else self._look_notification
        if not look(pop, is_last):
            (self.pops if is_pop else self.notifications).hold(pop)
            self._awake.set()

    def _look_late(self, pop: HeldPop) -> None:
        self._look(pop, True)
        self._settle()


def _always(_pop: HeldPop) -> bool:
    return True
