"""How fast a consumer is, topic by topic. Pure. RocketMQ: ConsumerStatsManager.

What happens is noted in plain numbers: once per pull that found something, once per call of a listener, once per tick
for what is done. Every 10 s they are sampled, so what is told of the last minute lags by up to that.
"""

from staticfire.protocol.requests.connections import TopicConsumption
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.sampled_counter import SampledCounter


class Tally:
    """What one consumer has noted of one topic."""

    __slots__ = ("calls", "consume_ms", "failed", "ok", "pull_ms", "pulled", "pulls")

    def __init__(self) -> None:
        self.pulls = 0
        """That found something."""
        self.pulled = 0
        """Messages of these."""
        self.pull_ms = 0
        self.calls = 0
        self.consume_ms = 0
        self.ok = 0
        self.failed = 0

    def pull_found(self, messages: int, took_ms: int) -> None:
        """Note a pull that found messages."""
        self.pulls += 1
        self.pulled += messages
        self.pull_ms += took_ms

    def called(self, took_ms: int) -> None:
        """Note a call of the listener."""
        self.calls += 1
        self.consume_ms += took_ms


class TopicStatistics:
    """The samples of one topic."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._pull_rt = SampledCounter()
        self._pulled = SampledCounter()
        self._consume_rt = SampledCounter()
        self._ok = SampledCounter()
        self._failed = SampledCounter()

    def sample(self, uptime_ms: UptimeMs, turn: int) -> None:
        """Take a sample of each number."""
        tally = self.tally
        for counter, value, times in (
            (self._pull_rt, tally.pull_ms, tally.pulls),
            (self._pulled, tally.pulled, tally.pulls),
            (self._consume_rt, tally.consume_ms, tally.calls),
            (self._ok, tally.ok, tally.calls),
            (self._failed, tally.failed, tally.calls),
        ):
            counter.value, counter.times = value, times
            counter.sample(uptime_ms, turn)

    def consumption(self) -> TopicConsumption:
        """Return how fast the consumer was in the last minute, and how many messages failed in the last hour.

        RocketMQ: ConsumerStatsManager.consumeStatus.
        """
        consume_rt = self._consume_rt.minute
        if consume_rt.sum == 0:
            consume_rt = self._consume_rt.hour
        return TopicConsumption(
            pull_rt=self._pull_rt.minute.avgpt,
            pull_tps=self._pulled.minute.tps,
            consume_rt=consume_rt.avgpt,
            consume_ok_tps=self._ok.minute.tps,
            consume_failed_tps=self._failed.minute.tps,
            consume_failed_msgs=self._failed.hour.sum,
        )


class ConsumerStatistics:
    """Those of one consumer. Topics that it has left stay: it may come back to them."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicStatistics] = {}
        self._turn = 0

    def tally(self, topic: str) -> Tally:
        """Return where a topic's numbers are noted."""
        return self._topics.setdefault(topic, TopicStatistics()).tally

    def sample(self, uptime_ms: UptimeMs) -> None:
        """Take samples; call it every SAMPLE_MS."""
        for topic in self._topics.values():
            topic.sample(uptime_ms, self._turn)
        self._turn += 1

    def consumption(self, topic: str) -> TopicConsumption:
        """Return how fast the consumer is in a topic."""
        known = self._topics.get(topic)
        return TopicConsumption() if known is None else known.consumption()
