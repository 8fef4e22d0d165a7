"""Messages of one `send_many` that leave for one broker as one request.

They have no future each, and no object but what is encoded: that is most of what a send costs otherwise. All goes well
with nearly all of them. What doesn't continues as a send by itself (`alone`), with attempts of its own.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.pending_send import SEND_OVERHEAD_BYTES, PendingSend
from staticfire.client.produce.send_result import SendResult, SendStatus
from staticfire.protocol.requests.send import ManyMessage, ManyResult

Row = tuple[str, int, bytes, bytes, int, int, int]
"""A ManyMessage, field by field, as it is encoded."""
Place = tuple[int, str, MessageQueue]
"""Which of the caller's messages it is, its id, where it goes."""
Results = list[SendResult | Exception | None]

_SEND_OK = SendStatus.SEND_OK


class Bundle:
    """What leaves together, and where its results go."""

    __slots__ = ("_results", "_settled", "places", "rows", "size")

    def __init__(self, results: Results, settled: Callable[[int], None]) -> None:
        """`results`: of all messages of the `send_many`; `settled` is told how many more of them are there."""
        self._results = results
        self._settled = settled
        self.rows: list[Row] = []
        self.places: list[Place] = []
        self.size = 0
        """Bytes that count towards the limits of a request and of what may wait."""

    def answered(self, answers: list[ManyResult], broker_prefix: str) -> list[int]:
        """Note what the broker says of each message; return which of them aren't simply stored."""
        results, troubled = self._results, []
        for number, ((index, message_id, queue), answer) in enumerate(zip(self.places, answers, strict=True)):
            if answer.code == 0:
                results[index] = SendResult(
                    _SEND_OK, message_id, queue, answer.queue_offset, answer.log_position, broker_prefix
                )
            else:
                troubled.append(number)
        self._settled(len(answers) - len(troubled))
        return troubled

    def alone(self, number: int, bundled: PendingSend) -> PendingSend:
        """Return one of the messages as a send by itself; `bundled` is what they were together."""
        row, (index, message_id, queue) = self.rows[number], self.places[number]
        future: asyncio.Future[SendResult] = bundled.future.get_loop().create_future()
        future.add_done_callback(partial(self._alone_settled, index))
        size = len(row[3]) + SEND_OVERHEAD_BYTES
        wire = ManyMessage(*row)
        return PendingSend(wire, message_id, queue, future, bundled.deadline_ms, bundled.attempts_left, size)

    def _alone_settled(self, index: int, future: asyncio.Future[SendResult]) -> None:
        if not future.cancelled():
            error = future.exception()
            self._results[index] = future.result() if error is None else as_exception(error)
        self._settled(1)


def as_exception(error: BaseException) -> Exception:
    """Return what a future was failed with, which is never more than an Exception here."""
    assert isinstance(error, Exception)
    return error


def checked(outcomes: list[SendResult | Exception], return_exceptions: bool) -> list[Any]:
    """Return the outcomes of many. Raises: the first failure, unless they are to be returned."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failures and not return_exceptions:
        words = f"{len(failures)} of {len(outcomes)} messages failed; return_exceptions=True tells which"
        failures[0].add_note(words)
        raise failures[0]
    return outcomes
