"""Messages that failed, or weren't acknowledged, are redelivered in time: neither early nor late."""

from staticfire.protocol.delay_levels import DELAY_LEVELS_DEFAULT, DelayLevels, retry_level
from staticfire.simulation.checkers.events import CallBegan, CallEnded, QueuePlace, Seen
from staticfire.simulation.checkers.lateness import Lateness, Waiting, is_pushed
from staticfire.simulation.checkers.unrest import SHARED_ANEW_MS
from staticfire.simulation.workload.description import Group, Workload

# RocketMQ: the interval at which ScheduleMessageService looks for messages that are due at a level.
LEVELS_SCAN_MS = 100
# RocketMQ: reviveInterval, at which it looks for popped messages to redeliver.
RETURNS_SCAN_MS = 1_000
# RocketMQ: pollNameServerInterval. After this time, clients have the route of a new topic, such as that of POP retries,
# and know another master.
ROUTE_MS = 30_000
# RocketMQ: with enableRetryTopicV2 each pop looks at the retry topic of one version, by chance, every 20 s at least.
BOTH_RETRIES_MS = 160_000
# RocketMQ: the delay of ConsumeMessagePopConcurrentlyService for a failed message, by the number of its redeliveries.
POP_FAILED_DELAYS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)


class RetriedInTime(Lateness):
    """A failed message is redelivered after the delay of its level, not before, and soon after.

    Ordered groups retry at once; ReturnsInTime checks popping ones. A message that failed and couldn't be sent back is
    consumed again from the same place, with a higher count, also if it was a retry itself. That isn't a retry: the next
    one has the delay that the stored count gives it, or that of the member's own count, if no broker takes it back and
    the member sends the retry itself. A user's listener may set another level.
    """

    promise = "a failed message is redelivered after the delay of its level, within 0.6 s"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        text = str(workload.brokers.settings.get("message_delay_level", DELAY_LEVELS_DEFAULT))
        self._levels = DelayLevels.parse(text)
        self._first: dict[tuple[str, str, int], int] = {}
        self._stored: dict[tuple[str, str, QueuePlace, int], int] = {}
        """How often a message had been redelivered when it first came from a place."""

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        group = self.groups[began.group]
        if ended.is_success or group.ordered or group.popped or group.listener is not None or not is_pushed(group):
            return
        for seen in began.messages:
            times = self._stored.get((began.group, seen.name, began.place, seen.offset), seen.reconsume_times)
            if not 0 <= group.retries_max <= times:
                for count in (times, seen.reconsume_times):
                    self._first.setdefault((began.group, seen.name, count), ended.at_ms)
                due_ms = ended.at_ms + self._delay_ms(times) + LEVELS_SCAN_MS
                waiting = Waiting(f"retry {times + 1} of {seen.name}", due_ms, began_ms=ended.at_ms)
                self.expect(began.group, (seen.name, times + 1), waiting)

    def _delay_ms(self, reconsume_times: int) -> int:
        return self._levels.delay_ms(self._levels.clamp(retry_level(reconsume_times)))

    def came(self, call: CallBegan, seen: Seen) -> None:
        source = (call.group, seen.name, call.place, seen.offset)
        if source in self._stored:  # Its failure may not have been sent back.
            self.give_up(call.group, (seen.name, self._stored[source] + 1))
        if self._stored.setdefault(source, seen.reconsume_times) != seen.reconsume_times:
            return
        before = (call.group, seen.name, seen.reconsume_times - 1)
        if not seen.is_retry or before not in self._first:
            return
        self.arrived(call, (seen.name, seen.reconsume_times))
        early_ms = self._first[before] + self._delay_ms(seen.reconsume_times - 1) - call.at_ms
        if early_ms > 0:
            words = f"retry {seen.reconsume_times} of {seen.name} was delivered to {call.group} {early_ms} ms early"
            self.broken(call.at_ms, words)


class ReturnsInTime(Lateness):
    """A popped message that isn't acknowledged is redelivered when its invisible time is over.

    A message that has failed is put off for as long as RocketMQ's consumers do. The first one of a broker comes as late
    as its group learns of the topic of its retries. A pop that waits is not always woken by what comes back, and takes
    as many as it requests: the next one's time begins then.
    """

    promise = (
        "a popped message that isn't acknowledged is redelivered within 31.5 s after the end of its invisible time"
    )
    # A member that has no time for a message may have it: then no listener is called.
    looks_ahead = False

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._put_off: dict[tuple[str, str, int], int] = {}
        """Until when, of messages that have failed."""
        self._came_ms: dict[str, int] = {}
        """When one came back last, by group."""
        has_both = workload.brokers.settings.get("enable_retry_topic_v2", False)
        self._looks_ms = ROUTE_MS + (BOTH_RETRIES_MS if has_both else 0)

    def queued_until(self, group: Group) -> float:
        came_ms = self._came_ms.get(group.name, 0)
        return came_ms + self._looks_ms if came_ms else 0

    def ended(self, began: CallBegan, ended: CallEnded) -> None:
        group = self.groups[began.group]
        for seen in began.messages if is_pushed(group) else ():
            if seen.popped_ms < 0 or (ended.is_success and ended.at_ms < seen.until_ms):
                continue
            if not ended.is_success and 0 <= group.retries_max <= seen.reconsume_times:
                continue
            delay_s = POP_FAILED_DELAYS_S[min(seen.reconsume_times, len(POP_FAILED_DELAYS_S) - 1)]
            is_put_off = not ended.is_success and ended.at_ms < seen.until_ms
            if is_put_off:
                self._put_off.setdefault((began.group, seen.name, seen.reconsume_times), ended.at_ms + 1_000 * delay_s)
            due_ms = ended.at_ms + 1_000 * delay_s if is_put_off else seen.until_ms
            what = f"{seen.name}, popped at {seen.popped_ms} ms,"
            due_ms += RETURNS_SCAN_MS + self._looks_ms
            self.expect(began.group, (seen.name, seen.reconsume_times + 1), Waiting(what, due_ms, began_ms=ended.at_ms))

    def came(self, call: CallBegan, seen: Seen) -> None:
        if seen.popped_ms < 0:
            return
        self.arrived(call, (seen.name, seen.reconsume_times))
        if seen.is_retry:
            self._came_ms[call.group] = call.at_ms
        put_off_ms = self._put_off.get((call.group, seen.name, seen.reconsume_times - 1), 0)
        is_excused = self.calm.group_excused_until(self.groups[call.group]) > seen.popped_ms - SHARED_ANEW_MS
        if seen.popped_ms < put_off_ms and not is_excused:
            words = f"{seen.name} failed in {call.group} and is redelivered {put_off_ms - seen.popped_ms} ms early"
            self.broken(call.at_ms, words)
