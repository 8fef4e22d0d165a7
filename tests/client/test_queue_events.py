"""What is done next about one queue, whatever happens in whatever order."""

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from staticfire.client import ConsumeContext, ConsumeStatus
from staticfire.client.consume.queues.instructions import (
    Commit,
    Deliver,
    GiveBack,
    Instructions,
    Leave,
    Pull,
    Wait,
)
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.results.consume_results import Messages
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, StaticfireError
from tests.client.queues import (
    LOCK_MS,
    QUEUE,
    SETTINGS,
    at,
    change,
    concurrent,
    found,
    nothing,
    ordered,
    state_of,
)
from tests.client.received import received


class Events(RuleBasedStateMachine):
    """A queue under any events; the machine is broker, listener and clock, and checks each instruction."""

    is_ordered = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.pulls = 0  # Under way.
        self.end = 0  # Of what the broker has.
        self.waits: list[int] = []
        self.committed = 0
        self.delivered: dict[int, int] = {}  # How often, by offset.
        self.listening: list[Any] = []  # Offsets that a listener has.
        self.over: set[int] = set()  # Done or sent back.
        self.unwanted: set[int] = set()
        self.stale = False
        self.left = 0
        self.turns = 0

    @initialize(start=st.integers(0, 3))
    def begin(self, start: int) -> None:
        self.state = state_of()
        self.queue: AssignedQueue[Any] = (ordered if self.is_ordered else concurrent)(self.state, start)
        self.start = self.end = self.committed = start
        self.obey(self.queue.assigned(at(self.now)))

    def obey(self, instructions: Instructions) -> None:
        for each in instructions:
            if isinstance(each, Pull):
                self.pulls += 1
                assert self.pulls == 1, "two pulls at once"
                assert not self.queue.is_dropped
                assert not self.state.is_suspended
                assert self.queue.policy.is_trusted(at(self.now))
                assert len(self.queue.cache) <= SETTINGS.pull_threshold_for_queue, "full, and pulled"
                assert each.queue_offset == self.queue.next_offset
            elif isinstance(each, Deliver):
                assert not self.queue.is_dropped, "delivered after it was given away"
                self.deliver(each)
            elif isinstance(each, Commit):
                self.commit(each.queue_offset)
            elif isinstance(each, Wait):
                self.waits.append(each.until_ms)
            elif isinstance(each, Leave):
                self.left += 1
                assert self.left == 1, "it left twice"
                assert self.queue.is_dropped

    def deliver(self, each: Deliver) -> None:
        for message in each.messages:
            offset = message.queue_offset
            assert offset not in self.over, "delivered again after it was done"
            assert offset not in self.listening, "at two listeners at once"
            self.delivered[offset] = self.delivered.get(offset, 0) + 1
            self.listening.append(offset)

    def commit(self, offset: int) -> None:
        assert offset >= self.committed, "committed offsets go back"
        missing = set(range(self.start, offset)) - self.over - self.unwanted
        assert not missing, f"committed past {missing}"
        self.committed = offset

    # -- broker

    @precondition(lambda self: self.pulls)
    @rule(count=st.integers(0, 9), skipped=st.integers(0, 2))
    def answer(self, count: int, skipped: int) -> None:
        """The broker goes past some and finds some, from where it was asked."""
        requested = self.queue.next_offset
        offsets = range(requested + skipped, requested + skipped + count)
        is_taken = not (self.stale or self.state.is_suspended or self.queue.is_dropped)
        if is_taken:
            self.unwanted |= set(range(requested, requested + skipped))
        self.pulls, self.stale = 0, False
        result = found(*offsets) if count else nothing(requested + skipped)
        self.obey(self.queue.pulled(result, at(self.now)))

    @precondition(lambda self: self.pulls)
    @rule(error=st.sampled_from([BrokerAnswer(215, "busy"), BrokerAnswer(25, "old"), AnswerTimeout("lost")]))
    def refuse(self, error: StaticfireError) -> None:
        self.pulls, self.stale = 0, False
        self.obey(self.queue.pull_failed(error, at(self.now)))

    @precondition(lambda self: self.pulls)
    @rule()
    def connect(self) -> None:
        self.pulls, self.stale = 0, False
        self.obey(self.queue.connected(at(self.now)))

    # -- clock, program, group

    @rule(ms=st.sampled_from([0, 1, 30, 3_000]))
    def wait(self, ms: int) -> None:
        self.now += ms
        due = [until for until in self.waits if until <= self.now]
        self.waits = [until for until in self.waits if until > self.now]
        if due:
            self.obey(self.queue.time(at(self.now)))

    @rule()
    def early(self) -> None:
        self.obey(self.queue.time(at(self.now)))

    @rule()
    def resubscribe(self) -> None:
        change(self.state)
        self.stale = self.pulls > 0

    @rule()
    def suspend(self) -> None:
        self.state.is_suspended = True

    @rule()
    def resume(self) -> None:
        self.state.is_suspended = False
        self.obey(self.queue.hurry(at(self.now)))

    @rule(chance=st.integers(0, 9))
    def revoke(self, chance: int) -> None:
        if chance == 0 or self.queue.is_dropped:
            self.obey(self.queue.revoked(at(self.now)))

    @invariant()
    def a_queue_that_waits_will_be_told_the_time(self) -> None:
        """It is pulled, or has a reason to wait: a timer, a suspended consumer, or its end."""
        if hasattr(self, "queue") and not self.queue.is_dropped and not self.state.is_suspended:
            assert self.pulls or self.waits


class ConcurrentEvents(Events):
    """Listeners end in any order, some fail, some failed ones are taken by no broker."""

    def end_of(self, chance: int) -> Any:
        offset = self.listening.pop(chance % len(self.listening))
        return received(offset)

    @precondition(lambda self: self.listening)
    @rule(chance=st.integers(0, 99))
    def succeed(self, chance: int) -> None:
        message = self.end_of(chance)
        if not self.queue.is_dropped:
            self.over.add(message.queue_offset)
        self.obey(self.queue.done([message], at(self.now)))

    @precondition(lambda self: self.listening and not self.queue.is_dropped)
    @rule(chance=st.integers(0, 99), is_taken=st.booleans())
    def fail(self, chance: int, is_taken: bool) -> None:
        messages: Messages = (self.end_of(chance),)
        out = self.queue.policy.answered(messages, ConsumeStatus.RECONSUME_LATER, ConsumeContext(QUEUE))
        assert out == [GiveBack(messages, 0)]
        if is_taken:
            self.over.add(messages[0].queue_offset)
            self.obey(self.queue.done(list(messages), at(self.now)))
        else:
            self.obey(self.queue.policy.kept(list(messages), at(self.now)))

    def teardown(self) -> None:
        """In the end every message is done, whatever happened: each was delivered, none is forgotten."""
        if not hasattr(self, "queue") or self.queue.is_dropped:
            return
        self.resume()
        while self.listening or self.waits:
            while self.listening:
                self.succeed(0)
            self.wait(5_000)
            if self.pulls:
                break
        while self.listening:
            self.succeed(0)
        self.wait(10_000)
        while self.listening:
            self.succeed(0)
        assert not self.queue.cache
        assert set(range(self.start, self.queue.next_offset)) == self.over | self.unwanted


class OrderedEvents(Events):
    """One turn at a time; what was taken is committed, comes again after a pause, or is rolled back."""

    is_ordered = True

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Any] = []
        self.last = -1

    def deliver(self, each: Deliver) -> None:
        assert each.messages == ()
        self.turns += 1
        assert self.turns == 1, "two work on the queue at once"

    @precondition(lambda self: self.turns)
    @rule(count=st.integers(1, 3), how=st.sampled_from(["commit", "keep", "suspend", "roll back"]))
    def work(self, count: int, how: str) -> None:
        """A turn of one call."""
        queue, policy = self.queue, self.queue.policy
        policy.is_running = True
        pause_ms = None
        if queue.may_consume(at(self.now)):
            new = policy.take(count)
            offsets = [message.queue_offset for message in new]
            assert offsets == sorted(offsets)
            if self.taken and offsets:
                assert offsets[0] > self.taken[-1].queue_offset
            assert all(offset not in self.over for offset in offsets)
            self.taken += new
            pause_ms = self.judge(how, new)
        self.turns = 0
        self.obey(queue.turn_ended(pause_ms, at(self.now)))

    def judge(self, how: str, new: Messages) -> int | None:
        policy = self.queue.policy
        if how == "commit":
            self.over |= {message.queue_offset for message in self.taken}
            self.taken = []
            self.obey(self.queue.removed(policy.commit(), at(self.now), may_go_back=True))
            return None
        if how == "keep":
            return None
        if how == "suspend":
            policy.put_back(new)
            self.taken = [message for message in self.taken if message not in new]
        else:
            policy.roll_back()
            self.taken = []
        return 100

    @precondition(lambda self: not self.queue.is_dropped)
    @rule(is_back=st.booleans())
    def broker_lost(self, is_back: bool) -> None:
        self.queue.policy.distrust()
        if is_back:
            self.relock()

    @precondition(lambda self: not self.queue.is_dropped)
    @rule()
    def relock(self) -> None:
        self.queue.policy.lock_granted(at(self.now))
        turn = self.queue.policy.next_turn()
        self.obey([] if turn is None else [turn])
        self.obey(self.queue.hurry(at(self.now)))

    @invariant()
    def what_waits_has_somebody_who_comes(self) -> None:
        """A message that waits has a turn, a pause, or no lock."""
        if hasattr(self, "queue") and not self.queue.is_dropped and self.queue.policy.waiting:
            trusted = self.queue.policy.is_trusted(at(self.now))
            assert self.turns or self.queue.policy.due_ms < 10**12 or not trusted or not self.lock_known()

    def lock_known(self) -> bool:
        """Locks that ran out are renewed in good time by whoever keeps them: here, by nobody."""
        return self.now < LOCK_MS


Concurrent = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestConcurrentEvents = ConcurrentEvents.TestCase
TestConcurrentEvents.settings = Concurrent
TestOrderedEvents = OrderedEvents.TestCase
TestOrderedEvents.settings = Concurrent
