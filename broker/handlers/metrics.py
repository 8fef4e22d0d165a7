"""What Prometheus is told of a broker: staticfire's own request, for the control endpoint."""

import asyncio

from staticfire.broker.delay.service import DelayService
from staticfire.broker.pop.door import PopDoor
from staticfire.broker.state import BrokerState
from staticfire.broker.timers.service import TimerService
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.statistics import MetricRow, MetricsAnswer
from staticfire.runtime.dispatcher import Call, Dispatcher

ROWS_AT_ONCE = 16
# Between two looks at the sockets: a millisecond, where groups lag in topics of ten queues.


class MetricHandlers:
    """Answers one scrape."""

    def __init__(
        self,
        state: BrokerState,
        delays: DelayService,
        timers: TimerService,
        transactions: TransactionService,
        pops: PopDoor,
    ) -> None:
        self._parts = (state, delays, timers, transactions, pops)

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handler."""
        dispatcher.handle(RequestCode.GET_METRICS, self.metrics)

    async def metrics(self, _: Call) -> Answer:
        """All time series of this broker. Messages pass meanwhile: ten thousand queues take a third of a second."""
        from staticfire.broker.metrics import BrokerMetrics  # here: most brokers are never scraped

        rows: list[MetricRow] = []
        for row in BrokerMetrics(*self._parts).rows():
            rows.append(row)
            if len(rows) % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return MetricsAnswer(body=rows)
