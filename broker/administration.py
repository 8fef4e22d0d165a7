"""Requests of administrators, and what they need: the key index and the counters.

It is wired here and not in server.py, because no message passes through it.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping

from staticfire.broker.delay.service import DelayService
from staticfire.broker.handlers.connections import ConnectionHandlers
from staticfire.broker.handlers.queries import QueryHandlers
from staticfire.broker.handlers.runtime_info import RuntimeInfo
from staticfire.broker.handlers.statistics import StatisticsHandlers
from staticfire.broker.handlers.upkeep import UpkeepHandlers
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.errors import StorageError
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.sampled_counter import SAMPLE_MS
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")


class Administration:
    """The broker's side of its administration."""

    def __init__(
        self,
        state: BrokerState,
        delays: DelayService,
        index: KeyIndexer,
        remove_old: Callable[[], Awaitable[None]],
    ) -> None:
        """`remove_old` removes at once everything that retention allows to remove."""
        self._state = state
        self._index = index
        self._runtime_info = RuntimeInfo(state, delays)
        self._families = (
            UpkeepHandlers(state, delays, remove_old),
            QueryHandlers(state, index),
            StatisticsHandlers(state, self._runtime_info),
            ConnectionHandlers(state),
        )

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        for family in self._families:
            family.register(dispatcher)

    async def start(self, spawn: Spawn, pause: Pause) -> None:
        """Open the index, follow the log, sample the counters. The store must be open."""
        self._state.statistics.started(self._state.store.max_position)
        self._runtime_info.started()
        await self._index.open()
        spawn(self._index.loop(pause), "key_index")
        spawn(self._sample_loop(pause), "statistics")

    async def _sample_loop(self, pause: Pause) -> None:
        while True:
            await pause(SAMPLE_MS)
            self._state.statistics.sample(self._state.machine.clock.uptime_ms())

    def stored(self, arrivals: Mapping[Queue, int], took_ms: int) -> None:
        """Note a stored burst, and the duration of its write."""
        self._state.statistics.stored(arrivals, self._state.store.max_position, took_ms)
        self._index.wake()

    async def stop(self) -> None:
        """Close the index. The loops may still be running, and see that it is closed."""
        try:
            await self._index.close()
        except (sqlite3.Error, StorageError) as error:
            log.warning("key_index_not_closed", error=str(error))
