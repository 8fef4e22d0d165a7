"""Messages are found by their ids and keys."""

from staticfire.protocol.names import is_system_topic
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import LookedUp, MessageFound, QueuePlace, RunEvent
from staticfire.simulation.workload.description import Workload

# The maximum number of messages that a search returns. RocketMQ: maxMsgsNumBatch.
FOUND_MAX = 64


class FoundByIdAndKey(Checker):
    """At rest, a look-up finds each stored copy of a message, in its queue, and no other message.

    By its unique id, a message is found in all topics: in its own, as a retry, as a dead letter. By its key, it is
    looked for in its own topic. RocketMQ's own topics aren't searched. A run looks for some of its messages.

    As in RocketMQ, a search returns the newest 64 copies. A message may have more: send-backs without a confirmation
    of slaves are stored, and repeated. Nothing else excuses a violation: a lost part of an index must be read again
    from the log, and whether the log has all messages is checked by NothingLost.
    """

    promise = "at rest, each stored message is found by its unique id and by its keys, and no other message is found"
    hears = (LookedUp, MessageFound)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._looked_up: list[LookedUp] = []
        self._stored: dict[str, list[MessageFound]] = {}

    def see(self, event: RunEvent) -> None:
        if isinstance(event, LookedUp):
            self._looked_up.append(event)
        elif isinstance(event, MessageFound) and not is_system_topic(event.place[1]):
            self._stored.setdefault(event.name, []).append(event)

    def finish(self) -> None:
        for looked_up in self._looked_up:
            self._check(looked_up)

    def _check(self, looked_up: LookedUp) -> None:
        at_ms, name, text = looked_up.at_ms, looked_up.name, looked_up.text
        if looked_up.problem:
            self.broken(at_ms, f"the search for {text} failed, and nothing was broken: {looked_up.problem}")
            return
        is_full = len(looked_up.found) >= FOUND_MAX
        found = {(place, offset) for _, place, offset in looked_up.found}
        for other in sorted({one for one, _, _ in looked_up.found} - {name}):
            self.broken(at_ms, f"the search for {text}, of {name}, found {other}")
        for stored in () if is_full else self._stored.get(name, ()):
            if looked_up.topic in ("", stored.place[1]) and (stored.place, stored.offset) not in found:
                where = f"at offset {stored.offset} of {_words(stored.place)}"
                self.broken(at_ms, f"the search for {text} didn't find {name} {where}")


def _words(place: QueuePlace) -> str:
    broker, topic, queue_id = place
    return f"{topic} {queue_id} on {broker}"
