"""A group member's own report, in RocketMQ's format. Pure. RocketMQ: ConsumerRunningInfo."""

from collections.abc import Iterator, Mapping

from staticfire.cli.mqadmin.java_text import digits, lines_of, object_text, text
from staticfire.protocol.requests.connections import ConsumerRunningInfo, ProcessQueueInfo
from staticfire.protocol.requests.locks import MessageQueue

PROPERTY, SUBSCRIPTION = "%-40s: %s", "%03d Topic: %-40s ClassFilter: %-8s SubExpression: %s"
QUEUES, QUEUE, POPPED = "%-64s  %-32s  %-4s  %-20s", "%-32s  %-32s  %-4s  %-20s", "%-32s  %-32s  %-4s  %s"
SPEEDS, SPEED = "%-64s  %14s %14s %14s %14s %18s %25s", "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d"
# A member that started less than this ago may not have the others' new subscriptions yet.
SETTLED_MS = 120_000
STUCK_MS = 60_000


def info_text(info: ConsumerRunningInfo) -> str:
    """Return the whole report of a member."""
    queues = sorted(info.mq_table.items(), key=_key)
    parts = [
        _part("Consumer Properties", PROPERTY, *sorted(info.properties.items())),
        _part("Consumer Subscription", SUBSCRIPTION, *_subscriptions(info)),
        _part("Consumer Offset", QUEUES, ("#Topic", "#Broker Name", "#QID", "#Consumer Offset")),
        lines_of(QUEUE, *((*_place(queue), held.commit_offset) for queue, held in queues)),
        _part("Consumer MQ Detail", QUEUES, ("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")),
        lines_of(QUEUES, *((*_place(queue), _held_text(held)) for queue, held in queues)),
        _part("Consumer Pop Detail", POPPED, ("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")),
        lines_of(POPPED, *_popped(info)),
        _part(
            "Consumer RT&TPS",
            SPEEDS,
            (
                "#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS",
                "#ConsumeFailedMsgsInHour",
            ),
        ),
        lines_of(SPEED, *_speeds(info)),
        _part("User Consume Info", PROPERTY, *sorted(info.user_consumer_info.items())),
    ]  # fmt: skip
    if info.jstack is not None:
        parts.append(f"\n\n#Consumer jstack#\n{info.jstack}")
    return "\n".join(part for part in parts if part).removeprefix("\n\n")


def _part(name: str, pattern: str, *rows: tuple[object, ...]) -> str:
    return "\n".join(filter(None, (f"\n\n#{name}#", lines_of(pattern, *rows))))


def _place(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def _key(item: tuple[MessageQueue, object]) -> tuple[str, str, int]:
    return _place(item[0])


def _subscriptions(info: ConsumerRunningInfo) -> Iterator[tuple[object, ...]]:
    for number, one in enumerate(sorted(info.subscription_set, key=lambda each: each.topic), 1):
        yield number, one.topic, text(one.class_filter_mode), one.sub_string


def _held_text(held: ProcessQueueInfo) -> str:
    fields: dict[str, object] = {
        "commitOffset": held.commit_offset,
        "cachedMsgMinOffset": held.cached_msg_min_offset,
        "cachedMsgMaxOffset": held.cached_msg_max_offset,
        "cachedMsgCount": held.cached_msg_count,
        "cachedMsgSizeInMiB": held.cached_msg_size_in_mi_b,
        "transactionMsgMinOffset": held.transaction_msg_min_offset,
        "transactionMsgMaxOffset": held.transaction_msg_max_offset,
        "transactionMsgCount": held.transaction_msg_count,
        "locked": held.locked,
        "tryUnlockTimes": held.try_unlock_times,
        "lastLockTimestamp": digits(held.last_lock_timestamp),
        "droped": held.droped,
        "lastPullTimestamp": digits(held.last_pull_timestamp),
        "lastConsumeTimestamp": digits(held.last_consume_timestamp),
    }
    return object_text("ProcessQueueInfo ", fields, "[]")


def _popped(info: ConsumerRunningInfo) -> Iterator[tuple[object, ...]]:
    for queue, held in sorted(info.mq_pop_table.items(), key=_key):
        words = f"waitAckCount:{held.wait_ack_count}, droped:{text(held.droped)}"
        yield *_place(queue), f"PopProcessQueueInfo [{words}, lastPopTimestamp:{held.last_pop_timestamp}]"


def _speeds(info: ConsumerRunningInfo) -> Iterator[tuple[object, ...]]:
    for topic, one in sorted(info.status_table.items()):
        failed = (one.consume_failed_tps, one.consume_failed_msgs)
        yield topic, one.pull_rt, one.pull_tps, one.consume_rt, one.consume_ok_tps, *failed


def is_push(info: ConsumerRunningInfo) -> bool:
    """Return whether a member is a push consumer."""
    return info.properties.get("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY"


def same_subscriptions(infos: Mapping[str, ConsumerRunningInfo], now_ms: int) -> bool:
    """Return whether all members subscribe to the same; always true while the first of them has just started."""
    first = infos[min(infos)]
    started = first.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    if not is_push(first) or not started.isdecimal() or now_ms - int(started) <= SETTLED_MS:
        return True
    wanted = {(one.topic, one.sub_string) for one in first.subscription_set}
    return all({(one.topic, one.sub_string) for one in info.subscription_set} == wanted for info in infos.values())


def stuck_lines(client_id: str, info: ConsumerRunningInfo, now_ms: int) -> list[str]:
    """Return the problems of a member's queues. RocketMQ: analyzeProcessQueue."""
    lines = []
    in_order = info.properties.get("PROP_CONSUMEORDERLY", info.properties.get("PROP_CONSUME_ORDERLY")) == "true"
    for queue, held in info.mq_table.items() if is_push(info) else ():
        place = object_text(
            "MessageQueue ", dict(zip(("topic", "brokerName", "queueId"), _place(queue), strict=True)), "[]"
        )
        quiet_ms = now_ms - held.last_consume_timestamp
        if in_order and not held.locked:
            lines.append(f"{client_id} {place} can't lock for a while, {now_ms - held.last_lock_timestamp}ms")
        elif in_order and held.droped and held.try_unlock_times > 0:
            lines.append(f"{client_id} {place} unlock {held.try_unlock_times} times, still failed")
        elif not in_order and quiet_ms > STUCK_MS and held.cached_msg_count > 0:
            lines.append(f"{client_id} {place} can't consume for a while, maybe blocked, {quiet_ms}ms")
    return lines
