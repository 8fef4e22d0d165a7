"""Queues that decide, without a cluster around them, and answers for them."""

from staticfire.client import MessageQueue, PushSettings
from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.client.cluster.subscriptions import Subscriptions, subscribe
from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.held_lock import HeldLock
from staticfire.client.consume.queues.instructions import (
    Instructions,
)
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.protocol.times import MessageMs, UptimeMs
from tests.client.received import several

QUEUE = MessageQueue("orders", "broker-a", 0)
SETTINGS = PushSettings(pull_threshold_for_queue=12, consume_concurrently_max_span=30)
LOCK_MS = 30_000


def state_of(choices: PushSettings = SETTINGS) -> ConsumerState:
    subscriptions = Subscriptions()
    subscriptions.put(subscribe("orders", "a", "TAG", MessageMs(1)))
    return ConsumerState("billing", choices, subscriptions, topic_retry_ms=1_000)


def change(state: ConsumerState) -> None:
    state.subscriptions.put(subscribe("orders", "b", "TAG", MessageMs(1)))


def concurrent(state: ConsumerState, start: int = 0) -> AssignedQueue[ConcurrentPolicy]:
    cache = ProcessQueue(start)
    policy = ConcurrentPolicy(cache, state.group, state.settings)
    return AssignedQueue(QUEUE, cache, policy, state, UptimeMs(0))


def ordered(state: ConsumerState, start: int = 0) -> AssignedQueue[OrderedPolicy]:
    cache = ProcessQueue(start)
    return AssignedQueue(QUEUE, cache, OrderedPolicy(cache, HeldLock(LOCK_MS, UptimeMs(0))), state, UptimeMs(0))


def found(*offsets: int, following: int | None = None) -> PullResult:
    end = offsets[-1] + 1 if following is None else following
    return PullResult(PullStatus.FOUND, several(*offsets), end, 0, end)


def nothing(following: int) -> PullResult:
    return PullResult(PullStatus.NO_NEW_MSG, [], following, 0, following)


def kinds(instructions: Instructions) -> list[type]:
    return [type(each) for each in instructions]


def at(ms: int) -> UptimeMs:
    return UptimeMs(ms)
