"""Messages of one `send_many` that are sent to one broker in one request.

They have no futures and no objects except their encoded form; otherwise these are most of the cost of a send.
Nearly all of them succeed. One that fails continues as a send of its own (`alone`), with its own attempts.
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
"""The fields of a ManyMessage, as they are encoded."""
Place = tuple[int, str, MessageQueue]
"""The index among the caller's messages, the message id, and the queue."""
Results = list[SendResult | Exception | None]

_SEND_OK = SendStatus.SEND_OK


class Bundle:
    """The messages of one request, and where their results go."""

    __slots__ = ("_results", "_settled", "places", "rows", "size")

    def __init__(self, results: Results, settled: Callable[[int], None]) -> None:
        """`results`: those of all messages of the `send_many`. `settled` is called with the number of new results."""
        self._results = results
        self._settled = settled
        self.rows: list[Row] = []
        self.places: list[Place] = []
        self.size = 0
        """The bytes that count towards the limits of a request and of waiting messages."""

    def answered(self, answers: list[ManyResult], broker_prefix: str) -> list[int]:
        """Store the broker's result of each message. Return the numbers of those that weren't simply stored."""
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
        """Return one of the messages as a send of its own; `bundled` is the send of the whole bundle."""
        row, (index, message_id, queue) = self.rows[number], self.places[number]
        future: asyncio.Future[SendResult] = bundled.future.get_loop().create_future()
        future.add_done_callback(partial(self._alone_settled, index))
        size = len(row[3]) + SEND_OVERHEAD_BYTES
        wire = ManyMessage(*row)
        return PendingSend(
            wire, message_id, queue, future, bundled.deadline_ms, bundled.attempts_left, size,
            retried_ms=bundled.retried_ms, extension_ms=bundled.extension_ms,
        )  # fmt: skip

    def _alone_settled(self, index: int, future: asyncio.Future[SendResult]) -> None:
        if not future.cancelled():
            error = future.exception()
            self._results[index] = future.result() if error is None else as_exception(error)
        self._settled(1)


def as_exception(error: BaseException) -> Exception:
    """Return the exception of a future, which here is always an Exception."""
    assert isinstance(error, Exception)
    return error


def checked(outcomes: list[SendResult | Exception], return_exceptions: bool) -> list[Any]:
    """Return the outcomes of many messages. Raises: the first failure, unless failures are returned."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failures and not return_exceptions:
        words = f"{len(failures)} of {len(outcomes)} messages failed; use return_exceptions=True to see which"
        failures[0].add_note(words)
        raise failures[0]
    return outcomes
