"""How fast a consumer is, per topic. Pure. RocketMQ: ConsumerStatsManager.

Events are counted in plain numbers: once per pull that found messages, once per call of a listener, once per tick for
messages that are done. The numbers are sampled every 10 s, so the values for the last minute lag by up to 10 s.
"""

from staticfire.protocol.requests.connections import TopicConsumption
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.sampled_counter import SampledCounter


class Tally:
    """The counts of one consumer and one topic."""

    __slots__ = ("calls", "consume_ms", "failed", "ok", "pull_ms", "pulled", "pulls")

    def __init__(self) -> None:
        self.pulls = 0
        """Pulls that found messages."""
        self.pulled = 0
        """The messages of these pulls."""
        self.pull_ms = 0
        self.calls = 0
        self.consume_ms = 0
        self.ok = 0
        self.failed = 0

    def pull_found(self, messages: int, took_ms: int) -> None:
        """Count a pull that found messages."""
        self.pulls += 1
        self.pulled += messages
        self.pull_ms += took_ms

    def called(self, took_ms: int) -> None:
        """Count a call of the listener."""
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
        """Sample each number."""
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
        """Return the rates of the last minute, and the number of messages that failed in the last hour.

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
    """The statistics of one consumer. Topics that it has left are kept: it may subscribe to them again."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicStatistics] = {}
        self._turn = 0

    def tally(self, topic: str) -> Tally:
        """Return the counts of a topic."""
        return self._topics.setdefault(topic, TopicStatistics()).tally

    def sample(self, uptime_ms: UptimeMs) -> None:
        """Sample all topics; call it every SAMPLE_MS."""
        for topic in self._topics.values():
            topic.sample(uptime_ms, self._turn)
        self._turn += 1

    def consumption(self, topic: str) -> TopicConsumption:
        """Return how fast the consumer is in a topic."""
        known = self._topics.get(topic)
        return TopicConsumption() if known is None else known.consumption()
