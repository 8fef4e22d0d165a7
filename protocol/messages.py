"""Messages as programs see them: those that they send, and those that they receive. RocketMQ: Message, MessageExt.

A `Message` can be sent without further checks: what a broker or the property string can't carry is refused when the
message is created. The exception are limits that a producer's settings define; `check_message` checks those. A
`ReceivedMessage` is a thin view of a stored record; its properties are parsed when they are first used.
"""

from collections.abc import Iterable, Mapping

from staticfire.protocol import properties as names
from staticfire.protocol.errors import ClientError
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.names import topic_fault
from staticfire.protocol.properties import find_property, format_properties, parse_properties
from staticfire.protocol.record import PROPERTIES_BYTES_MAX, StoredRecord

# RocketMQ's maxMessageSize, for producers and brokers. A body of exactly this size is accepted.
BODY_BYTES_MAX = 4 * 1024 * 1024

GOES_ALONE = "goes alone"
"""A key in `system_properties` that is never sent. The message gets a separate response, with its recall handle."""

_FLAG_MAX = 2**31 - 1
_LEVEL_DIGITS_MAX = 9


class Message:
    """A message to send."""

    __slots__ = (
        "body",
        "delay_level",
        "delay_ms",
        "deliver_ms",
        "flag",
        "keys",
        "properties",
        "sharding_key",
        "system_properties",
        "tags",
        "topic",
        "wait_stored",
    )

    def __init__(  # house: programs write them by name, as fields of the message
        self,
        topic: str,
        body: bytes,
        tags: str = "",
        keys: str | Iterable[str] = (),
        flag: int = 0,
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        delay_ms: int | None = None,
        deliver_ms: int | None = None,
        sharding_key: str = "",
        wait_stored: bool = True,
    ) -> None:
        """Make a message.

        `keys`: words by which the message can be found; they must not contain blanks. `delay_level`: a level of the
        broker's list, from 1 = 1 s to 18 = 2 h. `delay_ms`, `deliver_ms`: any delay, or a moment since 1970 (at most
        one of the three).
        `wait_stored`: the broker responds when the message is as safe as the broker's settings promise.

        Raises: ClientError.
        """
        self.topic = topic
        self.body = body
        self.tags = tags
        self.keys: tuple[str, ...] = (keys,) if isinstance(keys, str) and keys else tuple(keys)
        self.flag = flag
        self.properties: dict[str, str] = dict(properties) if properties else {}
        self.delay_level = delay_level
        self.delay_ms = delay_ms
        self.deliver_ms = deliver_ms
        self.sharding_key = sharding_key
        self.wait_stored = wait_stored
        self.system_properties: dict[str, str] = {}
        """Properties with names that programs may not set: for the client's own use."""
        if delay_ms is not None or deliver_ms is not None:
            self.system_properties[GOES_ALONE] = ""
        is_usual = type(body) is bytes and not (flag or delay_level or properties)
        if is_usual and delay_ms is None and deliver_ms is None:
            # Nothing else can be wrong.
            fault = _texts_fault(self)
        else:
            fault = message_fault(self)
        if fault is not None:
            raise ClientError(fault)

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, body={len(self.body)} bytes, tags={self.tags!r}, keys={self.keys!r})"


def message_fault(message: Message) -> str | None:
    """Return why no producer can send a message, or None if it can be sent."""
    if fault := _type_fault("the body", message.body, bytes):
        return fault
    for name in ("delay_level", "delay_ms", "deliver_ms"):
        value = getattr(message, name)
        if value is not None and (fault := _type_fault(name, value, int)):
            return fault
    if message.delay_level < 0:
        return f"the delay level is {message.delay_level}, which is less than 0"
    if not -_FLAG_MAX - 1 <= message.flag <= _FLAG_MAX:
        return f"the flag {message.flag} has more than 32 bits"
    delays = (message.delay_level > 0) + (message.delay_ms is not None) + (message.deliver_ms is not None)
    if delays > 1:
        return "use only one of delay_level, delay_ms and deliver_ms"
    if message.properties and (fault := _properties_fault(message.properties)):
        return fault
    return _texts_fault(message)


def not_a_message(value: object) -> ClientError:
    """Return the error for something else that a program sends."""
    return ClientError(f"a producer sends Message objects, not {value!r:.100}: write Message(topic, body)")


def _texts_fault(message: Message) -> str | None:
    try:
        texts = "".join((message.tags, message.sharding_key, *message.keys))
        if "\x01" not in texts and "\x02" not in texts and "" not in message.keys:
            # This is nearly always the case, so the parts aren't checked one by one.
            return None
    except TypeError:
        # One of them isn't text; the code below finds which.
        pass
    faults = [_value_fault("tags", message.tags), _value_fault("sharding_key", message.sharding_key)]
    faults += [_value_fault("a key", key) if key != "" else "a key is empty" for key in message.keys]
    return next(filter(None, faults))


def _properties_fault(properties: Mapping[str, str]) -> str | None:
    for name, value in properties.items():
        if name in names.RESERVED_NAMES:
            return f"the property {name} is reserved for RocketMQ: choose another name, or use the parameter for it"
        if fault := _type_fault(f"the name of the property {name!r}", name, str):
            return fault
        if fault := _type_fault(f"the property {name}", value, str):
            return fault
        if not name.strip() or not value.strip():
            return f"the property {name!r} has a blank name or value: {value!r}"
        if "\x01" in name or "\x02" in name:
            return f"the property {name!r} has U+0001 or U+0002 in its name, which separate properties"
        if fault := _value_fault(f"the property {name}", value):
            return fault
    return None


def _type_fault(what: str, value: object, wanted: type) -> str | None:
    if isinstance(value, wanted):
        return None
    return f"{what} is {type(value).__name__}, not {wanted.__name__}: {value!r:.100}"


def _value_fault(what: str, value: str) -> str | None:
    if fault := _type_fault(what, value, str):
        return fault
    if "\x02" in value or "\x01" in value:
        return f"{what} contains U+0001 or U+0002, which separate properties: {value!r}"
    return None


def check_message(message: Message, body_bytes_max: int = BODY_BYTES_MAX) -> None:
    """Check a message as a producer does before it sends. RocketMQ: Validators.checkMessage. Raises: ClientError."""
    fault = topic_fault(message.topic)
    if fault is not None:
        raise ClientError(f"{message.topic!r}: {fault}")
    body_bytes = len(message.body)
    if body_bytes == 0:
        raise ClientError(f"a message for {message.topic} has an empty body, which RocketMQ rejects")
    if body_bytes > body_bytes_max:
        raise ClientError(
            f"a message for {message.topic} has {body_bytes} bytes, the limit is {body_bytes_max}: send less, or raise "
            "maxMessageSize of the producer and of the brokers"
        )


def encode_message_properties(message: Message, unique_id: str) -> bytes:
    """Return the property string of a message to send. Raises: ClientError (too long)."""
    wait = "true" if message.wait_stored else "false"
    text = f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01{wait}\x02" if unique_id else f"WAIT\x01{wait}\x02"
    if message.tags:
        text = f"{text}TAGS\x01{message.tags}\x02"
    keys = message.keys
    if keys:
        text = f"{text}KEYS\x01{' '.join(keys)}\x02"
    if message.delay_level:
        text += f"DELAY\x01{message.delay_level}\x02"
    elif message.delay_ms is not None:
        text += f"TIMER_DELAY_MS\x01{message.delay_ms}\x02"
    elif message.deliver_ms is not None:
        text += f"TIMER_DELIVER_MS\x01{message.deliver_ms}\x02"
    if message.sharding_key:
        text += f"__SHARDINGKEY\x01{message.sharding_key}\x02"
    encoded = text.encode("utf-8", "replace")
    if message.properties:
        encoded += format_properties(message.properties)
    if message.system_properties:
        encoded += format_properties(
            {name: value for name, value in message.system_properties.items() if name != GOES_ALONE}
        )
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise ClientError(
            f"a message for {message.topic} has {len(encoded)} bytes of tags, keys and properties, the limit is "
            f"{PROPERTIES_BYTES_MAX}"
        )
    return encoded


class ReceivedMessage:
    """A message that a consumer receives."""

    __slots__ = (
        "_properties",
        "body",
        "broker_name",
        "consume_started_ms",
        "reconsume_times",
        "record",
        "store_host_packed",
        "topic",
        "undecoded",
    )

    def __init__(self, record: StoredRecord, broker_name: str, store_host: bytes) -> None:
        """`store_host`: the broker's address, 8 or 20 bytes."""
        self.record = record
        self.topic = record.topic
        """The topic of the subscription. A consumer replaces its retry topic by the original topic."""
        self.body = record.body
        """The body as sent. The consumer replaces a compressed body by the expanded one."""
        self.undecoded: str | None = None
        """The reason why the body is left as it is stored: it is marked as compressed and can't be expanded, or it was
        damaged in transit. None for nearly all messages.
        """
        self.reconsume_times = record.reconsume_times
        """How often its consumption has failed."""
        self.consume_started_ms = 0
        """When its listener was called, in uptime of the consumer's machine. RocketMQ: CONSUME_START_TIME."""
        self.broker_name = broker_name
        self.store_host_packed = store_host
        self._properties: dict[str, str] | None = None

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def log_position(self) -> int:
        return self.record.log_position

    @property
    def sys_flag(self) -> int:
        return self.record.sys_flag

    @property
    def flag(self) -> int:
        return self.record.flag

    @property
    def born_ms(self) -> int:
        """When it was created, by its producer's clock."""
        return self.record.born_ms

    @property
    def stored_ms(self) -> int:
        """When the broker stored it, in message time."""
        return self.record.stored_ms

    @property
    def prepared_position(self) -> int:
        """The position of a committed message's half message, 0 for other messages."""
        return max(self.record.prepared_position, 0)

    @property
    def stored_bytes(self) -> int:
        """The size of its record."""
        return self.record.record_bytes

    @property
    def born_host(self) -> str:
        """The producer's `ip:port`, as the broker saw it."""
        return host_text(self.record.born_host)

    @property
    def store_host(self) -> str:
        """The broker's `ip:port`."""
        return host_text(self.store_host_packed)

    @property
    def properties(self) -> dict[str, str]:
        """All properties by name, including RocketMQ's own. It is the same dict each time."""
        if self._properties is None:
            self._properties = parse_properties(self.record.properties)
        return self._properties

    def get(self, name: str) -> str | None:
        """Return one property. The others aren't parsed for it."""
        if self._properties is not None:
            return self._properties.get(name)
        value = find_property(self.record.properties, name)
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def tags(self) -> str | None:
        return self.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        """The words by which it can be found."""
        return (self.get(names.KEYS) or "").split()

    @property
    def message_id(self) -> str:
        """The unique id from its producer; if it has none, the offset message id."""
        return self.get(names.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id that contains its broker and its position there."""
        return offset_id(offset_id_prefix(self.store_host_packed), self.record.log_position)

    @property
    def transaction_id(self) -> str | None:
        """The unique id of a message that was sent in a transaction, None for others."""
        return self.get(names.UNIQ_KEY) if self.get(names.TRAN_MSG) == "true" else None

    @property
    def delay_level(self) -> int:
        """The level that it was delayed by, 0 if none. It is kept after delivery."""
        text = self.get(names.DELAY) or "0"
        return int(text) if text.isdecimal() and text.isascii() and len(text) <= _LEVEL_DIGITS_MAX else 0

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage(topic={self.topic!r}, broker={self.broker_name!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, message_id={self.message_id!r}, body={len(self.body)} bytes, "
            f"reconsume_times={self.reconsume_times})"
        )
