"""What the requests of administrators need besides the tables: the key index and the counters."""

import sqlite3

from staticfire.broker.handlers.runtime_info import RuntimeInfo
from staticfire.broker.key_index import KeyIndexer
from staticfire.broker.state import BrokerState
from staticfire.broker.statistics import Statistics
from staticfire.protocol.errors import StorageError
from staticfire.runtime.log import logger
from staticfire.runtime.sampled_counter import SAMPLE_MS
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")


class Administration:
    """Opens the key index, and samples the counters."""

    def __init__(
        self, state: BrokerState, statistics: Statistics, runtime_info: RuntimeInfo, index: KeyIndexer
    ) -> None:
        self._state = state
        self._statistics = statistics
        self.runtime_info = runtime_info
        self.index = index

    async def start(self, spawn: Spawn, pause: Pause) -> None:
        """Open the index, follow the log, sample the counters. The store must be open."""
        self._statistics.started(self._state.store.max_position)
        self.runtime_info.started()
        await self.index.open()
        spawn(self.index.loop(pause), "key_index")
        spawn(self._sample_loop(pause), "statistics")

    async def _sample_loop(self, pause: Pause) -> None:
        while True:
            await pause(SAMPLE_MS)
            self._statistics.sample(self._state.machine.clock.uptime_ms())

    async def stop(self) -> None:
        """Close the index. The loops may still be running, and see that it is closed."""
        try:
            await self.index.close()
        except (sqlite3.Error, StorageError) as error:
            log.warning("key_index_not_closed", error=str(error))
