"""The base class of all services of a client: a loop that crashes is logged."""

from staticfire.client.cluster.program_errors import place_of, words_of
from staticfire.runtime.log import logger
from staticfire.runtime.service import Service

log = logger("client")


class LoggedService(Service):
    """Logs its crash: its program may learn of it only when it waits or leaves."""

    def _crashed(self, loop_name: str, error: BaseException) -> None:
        if not isinstance(error, KeyboardInterrupt):
            words, at = words_of(error), place_of(error)
            log.error("loop_crashed", owner=self.own_name, loop=loop_name, error=words, at=at)
