"""The common part of all kinds of sends: the stored form of a message, and how it is refused.

The broker adds MSG_REGION, TRACE_ON and CLUSTER to the properties of a message, and UNIQ_KEY if it is missing. Before
that it removes the properties of the sender whose names only brokers may use.
"""

from staticfire.broker.delay.stored_form import MAY_WAIT
from staticfire.broker.retention import disk_words
from staticfire.broker.sends.not_built import refuse_not_built
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.message_ids import UniqueIds
from staticfire.protocol.properties import (
    CLUSTER,
    MSG_REGION,
    POP_CK,
    TRACE_ON,
    UNIQ_KEY,
    find_property,
    format_properties,
    with_last_end,
    without_property,
)
from staticfire.protocol.requests.send import SendAnswer
from staticfire.protocol.tags import tags_code

OUTCOME_CODE = {
    PutOutcome.STORED: int(ResponseCode.SUCCESS),
    PutOutcome.FLUSH_TIMEOUT: int(ResponseCode.FLUSH_DISK_TIMEOUT),
    PutOutcome.COPY_TIMEOUT: int(ResponseCode.FLUSH_SLAVE_TIMEOUT),
    PutOutcome.FAILED: int(ResponseCode.SERVICE_NOT_AVAILABLE),
}

_OF_BROKERS = (MSG_REGION, TRACE_ON, CLUSTER, POP_CK)

Prepared = tuple[bytes, str, int, bool]
"""The properties as they are stored, the unique id, the tags code, and whether the message may have to be delayed."""


class Sending:
    """Prepares messages and refusals, for one broker."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._store = state.store
        self._message_ms = state.clock.message_ms
        identity = state.machine.identity
        ip, salt = pack_host(identity.host_ip, 0)[:-4], identity.random.getrandbits(32)
        self._unique_ids = UniqueIds(ip, identity.pid, salt, identity.utc_offset_ms)
        self._use(state.settings)
        state.on_settings(self._use)

    def _use(self, settings: BrokerSettings) -> None:
        """Prepare what depends on the settings: the added properties, and the limits of a message."""
        self.body_bytes_max = settings.max_message_size
        self.region = settings.region_id
        self.trace_on = "true" if settings.trace_on else "false"
        added = {"MSG_REGION": self.region, "TRACE_ON": self.trace_on, "CLUSTER": settings.broker_cluster_name}
        self.added = format_properties(added)
        """The bytes that are added to the properties of every message."""
        self._properties_bytes_max = PROPERTIES_BYTES_MAX - len(self.added)
        self.illegal = (
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self.body_bytes_max}B, msg properties length limit 32KB."
        )

    # -- properties ----------------------------------------------------------------------------------------------

    def prepare(self, properties: bytes, body: bytes) -> Prepared:
        """Return the stored form of a message. Raises: BrokerAnswer (no body, too large).

        This is the rule for all sends. The compiled version (`_compiled_sends.c`) keeps it for plain ones.
        """
        if not body or len(body) > self.body_bytes_max:
            self._refuse_size(body)
        if len(properties) > self._properties_bytes_max:
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self.illegal)
        properties = with_last_end(properties)
        text = properties.decode("latin-1")  # One character for each byte: `in` takes a fraction of the time.
        if "CLUSTER\x01" in text or "MSG_REGION\x01" in text or "POP_CK\x01" in text:
            for name in _OF_BROKERS:
                properties = without_property(properties, name)
        code, may_wait = tags_code(properties), MAY_WAIT in text or "TRAN_MSG\x01" in text
        unique_id = find_property(properties, UNIQ_KEY)
        if unique_id:
            return properties + self.added, unique_id.decode("utf-8", "replace"), code, may_wait
        made = self._unique_ids.next_id(self._message_ms())
        kept = without_property(properties, UNIQ_KEY)
        whole = b"%sUNIQ_KEY\x01%s\x02%s" % (kept, made.encode(), self.added)
        if len(whole) > PROPERTIES_BYTES_MAX:
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self.illegal)
        return whole, made, code, may_wait

    def _refuse_size(self, body: bytes) -> None:
        if not body:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "the message body is empty, which RocketMQ rejects, too")
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self.illegal)

    def refuse_not_built(self, properties: bytes, sys_flag: int, reconsume_times: int) -> None:
        """Refuse what is not implemented or turned off. Raises: BrokerAnswer."""
        state = self._state
        refuse_not_built(properties, sys_flag, reconsume_times, state.settings, state.machine.identity.host_ip)

    # -- refusals ------------------------------------------------------------------------------------------------

    def refused(self, code: int, remark: str) -> Answer:
        """Return the response that refuses a send."""
        return SendAnswer(region=self.region, trace_on=self.trace_on, code=int(code), remark=remark)

    def not_stored(self) -> Answer:
        """Return the response for a message that could not be written."""
        return self.refused(ResponseCode.SERVICE_NOT_AVAILABLE, self.unavailable(self._store.failure))

    def unavailable(self, error: Exception | None) -> str:
        """Return the remark for the case that nothing can be stored."""
        return (
            "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
            f"[{disk_words(self._state.disk_use)}], messages are put to the slave, message store has been shut down, "
            f"etc. [{error}]"
        )
