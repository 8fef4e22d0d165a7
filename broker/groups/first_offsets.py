"""Where a new group begins to consume a queue, if it wants to begin at the end. Pure.

A RocketMQ client finds the end with two requests: QUERY_CONSUMER_OFFSET, which returns that the group has no offset,
and then GET_MAX_OFFSET. A message that is stored between the two is before the offset in the second response: the group
never gets it. On an empty queue that is the first message of all.

Here the broker remembers the end of the queue at the first of the two requests, and returns it to the second one. It is
remembered for the group as long as the group has members: a member that takes over the queue, before an offset was
committed, begins there, too. GET_MAX_OFFSET doesn't name a group. So the next GET_MAX_OFFSET of that connection for
that queue counts as the second request, if it arrives soon, and before the group pulls the queue over that connection.
A polling client always reports CONSUME_FROM_LAST_OFFSET. If it begins at the first message, there is no second request,
and a later GET_MAX_OFFSET is for a seek.
"""

from typing import NamedTuple

from staticfire.broker.groups.consumers import ConsumerGroup, Member
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection

FROM_LAST = "CONSUME_FROM_LAST_OFFSET"
PUSH = "CONSUME_PASSIVELY"
# How much later the second request of a push consumer may arrive. It is sent at once, but a machine can be busy.
PUSH_FOLLOWS_MS_MAX = 10_000
# The same for a pull consumer. It is short, because such a client always reports CONSUME_FROM_LAST_OFFSET, and its
# program may request the end for another reason.
PULL_FOLLOWS_MS_MAX = 1_000
# The limits of queues with a remembered end, and of queues whose offset one connection has requested. The oldest are
# forgotten.
BEGINNINGS_MAX = 100_000
QUESTIONS_MAX = 10_000

Place = tuple[str, int]
"""Topic and queue id."""


class _Beginning(NamedTuple):
    offset: int
    group: ConsumerGroup
    """If this is still the object of the group, the group has had members all the time."""
    queue: Queue
    """If a topic is deleted and created again, its queue is another object."""


class _Question(NamedTuple):
    group_name: str
    until_ms: UptimeMs


class FirstOffsets:
    """Remembers where groups without an offset begin."""

    def __init__(self) -> None:
        self._beginnings: dict[tuple[str, str, int], _Beginning] = {}
        self._questions: dict[Connection, dict[Place, _Question]] = {}

    def __len__(self) -> int:
        """Return how many connections have requested an offset and may request the end of its queue."""
        return len(self._questions)

    def has_none(self, group: ConsumerGroup, member: Member, queue: Queue, uptime_ms: UptimeMs) -> None:
        """Note that a member was answered that its group has no offset in a queue."""
        data, place = member.data, (queue.topic, queue.queue_id)
        if (data.consume_from_where or FROM_LAST) != FROM_LAST or is_retry_topic(place[0]):
            return
        key = (group.name, *place)
        known = self._beginnings.get(key)
        if known is None or known.group is not group or known.queue is not queue:
            self._beginnings[key] = _Beginning(queue.max_offset, group, queue)
        follows_ms = PUSH_FOLLOWS_MS_MAX if data.consume_type == PUSH else PULL_FOLLOWS_MS_MAX
        questions = self._questions.setdefault(member.connection, {})
        questions[place] = _Question(group.name, UptimeMs(uptime_ms + follows_ms))
        if len(self._beginnings) > BEGINNINGS_MAX:
            del self._beginnings[next(iter(self._beginnings))]
        if len(questions) > QUESTIONS_MAX:
            del questions[next(iter(questions))]

    def pulled(self, connection: Connection, pull: PullMessage) -> None:
        """Note that a group's member pulls a queue: it has found its start, so no second request follows."""
        questions = self._questions.get(connection)
        if not questions:
            return
        place = pull.topic, pull.queue_id
        question = questions.get(place)
        if question is not None and question.group_name == pull.consumer_group:
            del questions[place]

    def end_for(self, connection: Connection, queue: Queue, uptime_ms: UptimeMs) -> int:
        """Return the end of a queue that was remembered for the group of this connection, else the real end."""
        place, end = (queue.topic, queue.queue_id), queue.max_offset
        questions = self._questions.get(connection)
        question = questions.pop(place, None) if questions else None
        if question is None or uptime_ms > question.until_ms:
            return end
        known = self._beginnings.get((question.group_name, *place))
        return end if known is None or known.queue is not queue else min(known.offset, end)

    def disconnected(self, connection: Connection) -> None:
        """Forget the requests of a closed connection."""
        self._questions.pop(connection, None)

    def forget_group(self, group_name: str) -> None:
        """Forget a group whose offsets were deleted."""
        for key in [key for key in self._beginnings if key[0] == group_name]:
            del self._beginnings[key]
