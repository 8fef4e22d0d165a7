"""The settings that a client gets: its own, completed with what the cluster decides. Pure.

RocketMQ: GrpcClientSettingsManager.
"""

from collections.abc import Sequence

from staticfire.protocol.requests.groups import ExponentialRetryPolicy, SubscriptionGroupConfig
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    CustomizedBackoff,
    ExponentialBackoff,
    RetryPolicy,
    Settings,
)
from staticfire.proxy.services.pb_times import duration
from staticfire.proxy.services.sent_messages import BODY_BYTES_MAX

PRODUCER_ATTEMPTS_MAX = 3
PRODUCER_BACKOFF = ExponentialBackoff(initial=duration(10), max=duration(1_000), multiplier=2)
RECEIVE_BATCH_MAX = 32
POLL_MS_MAX = 20_000
POLL_MS_MIN = 5_000
RETRY_DELAYS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
EXPONENTIAL = "EXPONENTIAL"


def producer_settings(wanted: Settings) -> Settings:
    """Return the settings of a producer."""
    settings = Settings()
    settings.CopyFrom(wanted)
    settings.backoff_policy.CopyFrom(
        RetryPolicy(max_attempts=PRODUCER_ATTEMPTS_MAX, exponential_backoff=PRODUCER_BACKOFF)
    )
    settings.publishing.max_body_size = BODY_BYTES_MAX
    settings.publishing.validate_message_type = True
    settings.metric.on = False
    return settings


def consumer_settings(wanted: Settings, group: SubscriptionGroupConfig) -> Settings:
    """Return the settings of a consumer, given the configuration of its group."""
    settings = Settings()
    settings.CopyFrom(wanted)
    settings.backoff_policy.CopyFrom(retry_policy(group))
    settings.subscription.fifo = group.consume_message_orderly
    settings.subscription.receive_batch_size = RECEIVE_BATCH_MAX
    settings.subscription.long_polling_timeout.CopyFrom(duration(POLL_MS_MAX))
    settings.metric.on = False
    return settings


def attempts_max(group: SubscriptionGroupConfig) -> int:
    """Return how often a message is delivered to a group at most."""
    return group.retry_max_times + 1


def retry_policy(group: SubscriptionGroupConfig) -> RetryPolicy:
    """Return how often a message is delivered to a group at most, and the delays between."""
    policy = group.group_retry_policy
    if policy.type == EXPONENTIAL:
        grows = policy.exponential_retry_policy or ExponentialRetryPolicy()
        backoff = ExponentialBackoff(
            initial=duration(grows.initial), max=duration(grows.max), multiplier=float(grows.multiplier)
        )
        return RetryPolicy(max_attempts=attempts_max(group), exponential_backoff=backoff)
    delays = CustomizedBackoff(next=[duration(delay_ms) for delay_ms in retry_delays_ms(group)])
    return RetryPolicy(max_attempts=attempts_max(group), customized_backoff=delays)


def retry_delays_ms(group: SubscriptionGroupConfig) -> Sequence[int]:
    """Return the delays of a group whose policy is a table."""
    customized = group.group_retry_policy.customized_retry_policy
    return (customized and customized.next) or [delay_s * 1000 for delay_s in RETRY_DELAYS_S]


def retry_delay_ms(group: SubscriptionGroupConfig, reconsume_times: int) -> int:
    """Return the delay after a failure. RocketMQ: RetryPolicy.nextDelayDuration."""
    policy = group.group_retry_policy
    if policy.type == EXPONENTIAL:
        grows = policy.exponential_retry_policy or ExponentialRetryPolicy()
        times = min(max(reconsume_times, 0), 32)
        return int(min(grows.max, grows.initial * max(grows.multiplier, 1) ** times))
    delays = retry_delays_ms(group)
    return delays[min(max(reconsume_times, 0) + 2, len(delays) - 1)]
