"""The shares of a group's members: how many queues each has, and how many messages it consumes at the same time."""

from collections import defaultdict

from staticfire.client import AVERAGELY, AVERAGELY_BY_CIRCLE, LitePullSettings
from staticfire.simulation.checkers.busy import threads_of
from staticfire.simulation.checkers.checker import Checker
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    OwnersSeen,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.simulation.workload.description import LITE_PULL, PUSH, Group, Workload


class FairShares(Checker):
    """At rest, each running member has the queues that the strategy of its group gives it.

    Both strategies of workloads give numbers of queues that differ by at most one, in each topic: AVERAGELY one block
    of successive queues to each member, AVERAGELY_BY_CIRCLE one queue to each member in turn. Queues are in the order
    of RocketMQ: by broker, then by queue id. Other strategies aren't judged. If a queue has several owners or none,
    OwnersAgree reports that.
    """

    promise = "at rest, the numbers of queues of a group's members differ by at most one, as their strategy gives them"
    hears = (OwnersSeen, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._up: set[str] = set()

    def see(self, event: RunEvent) -> None:
        match event:
            case ProcessBegan(who=who):
                self._up.add(who)
            case ProcessEnded(who=who):
                self._up.discard(who)
            case OwnersSeen(at_ms=at_ms, group=group, owners=owners):
                topics: defaultdict[str, dict[QueuePlace, str]] = defaultdict(dict)
                for place in sorted(owners):
                    if len(owners[place]) == 1:
                        topics[place[1]][place] = owners[place][0]
                for topic, owner_of in topics.items():
                    if len(owner_of) == sum(place[1] == topic for place in owners):
                        self._check(at_ms, self.groups[group], topic, list(owner_of.values()))
            case _:
                pass

    def _check(self, at_ms: int, group: Group, topic: str, owners: list[str]) -> None:
        """Check the owners of a topic's queues, in the order of the queues."""
        strategy = group.settings.get("allocate_strategy", AVERAGELY)
        if strategy not in (AVERAGELY, AVERAGELY_BY_CIRCLE):
            return
        members = [member for member in group.member_names if member in self._up]
        shares = {member: owners.count(member) for member in members}
        if max(shares.values(), default=0) - min(shares.values(), default=0) > 1:
            self.broken(at_ms, f"the members of {group.name} have {shares} queues of {topic}")
        elif not _is_in_turn(owners, len(members) if strategy is AVERAGELY_BY_CIRCLE else 0):
            self.broken(at_ms, f"{strategy.name} doesn't give {group.name} the queues of {topic} to {owners}")


def _is_in_turn(owners: list[str], members: int) -> bool:
    """Return whether one queue goes to each of the members in turn; 0: whether each has successive queues."""
    if members:
        return owners == [owners[number % members] for number in range(len(owners))]
    changes = [owner for number, owner in enumerate(owners) if not number or owners[number - 1] != owner]
    return len(changes) == len(set(changes))


class ThreadsLimited(Checker):
    """A member has no more running calls than threads, and no call has more messages than allowed.

    No fault excuses a violation. As in RocketMQ, there are threads for popped messages, and others for pulled ones. A
    call with popped messages may have some of several queues. Each queue is an event, so only the messages are counted.
    Broadcasting groups aren't judged: only the ends of their calls are known.
    """

    promise = "a member never has more running calls than consume_threads, nor more messages in a call than allowed"
    hears = (CallBegan, CallEnded, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._running: dict[tuple[str, bool], dict[int, int]] = {}
        """By member and whether they are popped: the running calls with the numbers of their messages."""
        self._pools: dict[int, tuple[str, bool]] = {}
        self._batches = {group.name: _batch_of(group) for group in workload.groups}
        self._threads = {group.name: threads_of(group) for group in workload.groups}

    def see(self, event: RunEvent) -> None:
        match event:
            case CallBegan(call=call, member=member, messages=messages):
                pool = self._pools[call] = member, messages[0].popped_ms >= 0
                self._running.setdefault(pool, {})[call] = len(messages)
                self._check(event, pool)
            case CallEnded(call=call) if call in self._pools:
                self._running.get(self._pools.pop(call), {}).pop(call, None)
            case ProcessEnded(who=who, how=how) if how != "stopping":
                for is_popped in (False, True):
                    self._running.pop((who, is_popped), None)
            case _:
                pass

    def _check(self, began: CallBegan, pool: tuple[str, bool]) -> None:
        batch, threads, running = self._batches[began.group], self._threads[began.group], self._running[pool]
        count, calls = len(began.messages), len(running)
        is_poll = self.groups[began.group].way != PUSH
        if count > batch:
            self.broken(began.at_ms, f"a call of {began.member} has {count} messages, and {batch} are allowed")
        elif calls > threads and not (is_poll or pool[1]):
            self.broken(began.at_ms, f"{began.member} has {calls} running calls and {threads} threads")
        elif sum(running.values()) > batch * threads:
            words = f"{began.member} consumes {sum(running.values())} messages at the same time"
            self.broken(began.at_ms, f"{words}, with {threads} threads and {batch} messages per call")


def _batch_of(group: Group) -> int:
    """Return the maximum number of messages of a call."""
    if group.way == LITE_PULL:
        return LitePullSettings().pull_batch_size
    return int(group.settings.get("consume_message_batch_max_size", group.batch))
