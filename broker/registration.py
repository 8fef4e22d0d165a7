"""Registration of the broker at its nameservers: at start, every 30 s, and at once when a topic changes.

A nameserver removes a broker when its connection breaks, so the registration is repeated as soon as the nameserver is
reachable again. RocketMQ: BrokerOuterAPI.registerBrokerAll.
"""

import asyncio
from contextlib import suppress

from staticfire.broker.config_files import TOPICS_FILE, ConfigFiles
from staticfire.broker.replication.lineage import has_replicas
from staticfire.broker.settings import BrokerSettings, reach_of
from staticfire.broker.state import BrokerState
from staticfire.broker.static_topics.table import StaticTopicTable
from staticfire.broker.topics import TopicTable
from staticfire.protocol.errors import BrokerAnswer, NetworkError, ProtocolError, StorageError
from staticfire.protocol.permissions import INHERIT, READ_WRITE
from staticfire.protocol.requests.brokers import (
    BrokerHeartbeat,
    RegisterBroker,
    RegistrationAnswer,
    RegistrationBody,
    TopicConfigTable,
    UnregisterBroker,
)
from staticfire.protocol.requests.clock import ClockReading
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.runtime.addresses import format_address, parse_addresses
from staticfire.runtime.log import logger
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.server import IDLE_MS_MAX

log = logger("broker")

TIMEOUT_MS = 24_000
RETRY_MS = 50
RETRY_MS_MAX = 1_000
UNREGISTER_TIMEOUT_MS = 1_000
# The number of heartbeats within the time after which a nameserver considers a broker gone.
LIVES = 3
# RocketMQ waits for up to 24 s. By then the producer whose topic it is has given up.
ANNOUNCED_MS_MAX = 1_000
# How long a broker that starts waits for message time before it delivers by its own time. A lost packet is sent again
# after a second.
TIME_KNOWN_MS_MAX = 3_000


class Registration:
    """The registrations of one broker at all its nameservers."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        static_topics: StaticTopicTable,
        config_files: ConfigFiles,
        pool: ConnectionPool,
    ) -> None:
        self._state = state
        self._topics = topics
        self._static_topics = static_topics
        self._config_files = config_files
        self._pool = pool
        self._port = 0
        text = state.settings.namesrv_addr
        self.nameservers = [format_address(*address) for address in parse_addresses(text)] if text else []
        self._changed: dict[str, asyncio.Event] = {}
        self._pending: dict[str, set[str]] = {}
        self._registered: dict[str, asyncio.Event] = {}
        self._announced: dict[str, asyncio.Event] = {}
        """Set while a nameserver has received every change, or could not be reached."""
        self._with_gone_topics: set[str] = set()
        """The nameservers that have routes of topics that are gone since the last core, until they are removed."""
        self._failing: set[str] = set()
        """The nameservers at which the last registration failed. The next one waits, although connections end."""
        self._full_wanted = 0
        """Counts the changes that need a full registration. If it has changed during one, another one is needed."""
        self._is_leaving = False
        topics.on_change(self.topic_changed)

    def start(self, port: int, has_fewer_topics: bool = False) -> None:
        """Begin with the port that the broker listens on. `has_fewer_topics`: the last core had others, too."""
        self._port = port
        if has_fewer_topics:
            self._with_gone_topics.update(self.nameservers)
        for address in self.nameservers:
            self._changed[address] = asyncio.Event()
            self._registered[address] = asyncio.Event()
            self._announced[address] = asyncio.Event()
            self._pending[address] = set()

    async def registered(self) -> None:
        """Wait until one nameserver has registered this broker, and for a while for the others.

        If one of several is unreachable, this must not block the broker or its clients. It is notified when it is back.
        """
        waiting = [asyncio.ensure_future(event.wait()) for event in self._registered.values()]
        try:
            if waiting:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait(waiting, timeout=ANNOUNCED_MS_MAX / 1000)
        finally:
            for one in waiting:
                one.cancel()

    async def time_known(self) -> None:
        """Wait until the first nameserver has responded with message time, but not long if it is away."""
        for address in self.nameservers[:1]:
            await _wait(self._registered[address], TIME_KNOWN_MS_MAX)

    async def announced(self) -> None:
        """Wait until the nameservers have received all changes so far, but not long if one of them is unreachable."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCED_MS_MAX / 1000):
                for event in self._announced.values():
                    await event.wait()

    def topic_changed(self, topic: TopicConfig | None) -> None:
        """Notify the nameservers soon: of that topic, or of all topics after a deletion."""
        self._full_wanted += topic is None
        for address, event in self._changed.items():
            if topic is None:
                self._registered[address].clear()
            else:
                self._pending[address].add(topic.topic_name)
            self._announced[address].clear()
            event.set()

    def lost(self, address: str) -> None:
        """Register again, because a connection to a nameserver has ended, unless this broker ends it at its stop."""
        if address in self._registered and not self._is_leaving:
            self._registered[address].clear()
            if address not in self._failing:
                self._changed[address].set()

    async def keep_registered(self, address: str) -> None:
        """Register all topics, then each change, and all topics again after the period; repeat forever."""
        retry_ms = RETRY_MS
        uptime_ms = self._state.machine.clock.uptime_ms
        full_at_ms: int = uptime_ms()
        while True:
            names, full_wanted = self._take_pending(address), self._full_wanted
            # A nameserver that removes unlisted topics (deleteTopicWithBrokerRegistration) takes any list but that of
            # one topic for a complete one. One list per topic isn't enough: the second has no newer version.
            whole = len(names) > 1 or uptime_ms() >= full_at_ms or not self._registered[address].is_set()
            self._changed[address].clear()
            try:
                await self._register(address, None if whole else names)
            except (NetworkError, BrokerAnswer, ProtocolError) as error:
                log.warning("registration_failed", nameserver=address, error=str(error), retry_ms=retry_ms)
                self._keep_time_running(address)
                self._failing.add(address)
                self._registered[address].clear()
                self._announced[address].set()
                # The end of this connection has set it. The next attempt registers all topics in any case.
                self._changed[address].clear()
                await _wait(self._changed[address], retry_ms)
                retry_ms = min(retry_ms * 2, RETRY_MS_MAX)
                continue
            self._failing.discard(address)
            retry_ms = RETRY_MS
            if whole:
                self._with_gone_topics.discard(address)
            if whole and full_wanted == self._full_wanted:
                full_at_ms = uptime_ms() + max(1, self._state.settings.register_name_server_period)
                self._registered[address].set()
            if not self._changed[address].is_set():
                self._announced[address].set()
            await self._stay_alive(address, full_at_ms)

    async def _stay_alive(self, address: str, full_at_ms: int) -> None:
        """Wait until something changes or the next full registration is due, and send heartbeats meanwhile."""
        uptime_ms, changed = self._state.machine.clock.uptime_ms, self._changed[address]
        while not changed.is_set() and (left_ms := full_at_ms - uptime_ms()) > 0:
            life_ms = sign_of_life_ms(self._state.settings)
            await _wait(changed, min(left_ms, life_ms))
            if life_ms < left_ms and not changed.is_set():
                try:
                    await self._pool.ask(address, self._heartbeat(), TIMEOUT_MS)
                except (NetworkError, BrokerAnswer, ProtocolError) as error:
                    log.warning("heartbeat_failed", nameserver=address, error=str(error))
                    return

    def _heartbeat(self) -> BrokerHeartbeat:
        settings = self._state.settings
        return BrokerHeartbeat(
            settings.broker_cluster_name,
            self.address,
            settings.broker_name,
            settings.broker_id,
            settings.broker_heartbeat_timeout_ms,
        )

    def _take_pending(self, address: str) -> list[str]:
        names = sorted(self._pending[address])
        self._pending[address].clear()
        return names

    async def _register(self, address: str, names: list[str] | None) -> None:
        """Register all topics, or only the named one: RocketMQ's incremental registration."""
        topics = self._topics.topics
        wanted = topics if names is None else {name: topics[name] for name in names if name in topics}
        if not wanted:
            return
        settings, shown = self._state.settings, _masked(wanted, self._state.permission)
        answer = await self._pool.ask(
            address,
            RegisterBroker(
                broker_name=settings.broker_name,
                broker_addr=self.address,
                cluster_name=settings.broker_cluster_name,
                ha_server_addr=format_address(
                    settings.broker_ip1 or self._state.machine.identity.host_ip, self._port + 1
                ),
                broker_id=settings.broker_id,
                heartbeat_timeout_millis=settings.broker_heartbeat_timeout_ms,
                advertised=bool(settings.broker_ip1),
                external_addr=self.external_address,
                has_fewer_topics=names is None and address in self._with_gone_topics,
                clock=self._state.clock.reading().text() if address == self.nameservers[0] else None,
                auto_create_groups=settings.auto_create_subscription_group,
                enable_acting_master=settings.enable_slave_acting_master if has_replicas(settings) else None,
                body=RegistrationBody(TopicConfigTable(shown, self._topics.version, self._static_topics.infos(wanted))),
            ),
            TIMEOUT_MS,
        )
        if answer.code != 0:
            raise BrokerAnswer(answer.code, answer.remark or "register broker failed")
        if isinstance(answer, RegistrationAnswer):
            self._follow_clock(answer)
            if answer.body is not None:
                self._mark_ordered(answer.body.table)

    def _follow_clock(self, answer: RegistrationAnswer) -> None:
        """Set the nameserver's time: this broker is new, or was unreachable when the time was set."""
        try:
            if answer.clock is not None:
                self._state.follow_clock(ClockReading.parse(answer.clock))
        except (StorageError, ProtocolError) as error:
            log.error("clock_not_followed", error=str(error))

    def _keep_time_running(self, address: str) -> None:
        """Let time continue if it was stopped only for a move by the nameserver that is away now."""
        if address == self.nameservers[0]:
            try:
                self._state.clock.continue_alone()
            except StorageError as error:
                log.error("clock_not_continued", error=str(error))

    @property
    def address(self) -> str:
        """The address with which this broker registers: the advertised one, or the one it listens on."""
        settings = self._state.settings
        return format_address(*reach_of(settings).address((settings.listen_host, self._port), is_near=True))

    @property
    def external_address(self) -> str | None:
        """The address for clients that connect through a port mapping, if there is one."""
        settings = self._state.settings
        if settings.broker_ip1 or not settings.external_host:
            return None
        return format_address(settings.external_host, settings.external_port or self._port)

    def _mark_ordered(self, table: dict[str, str]) -> None:
        """Mark topics with an order configuration as ordered. The flag is never removed."""
        for name in table:
            topic = self._topics.get(name)
            if topic is not None and not topic.order:
                topic.order = True
                self._config_files.changed(TOPICS_FILE)

    async def unregister(self) -> None:
        """Remove the routes before the broker stops. A nameserver that doesn't respond can't prevent the stop."""
        self._is_leaving = True
        settings = self._state.settings
        for address in self.nameservers:
            connection = self._pool.open_connection(address)
            if connection is None:
                continue
            try:
                await connection.ask(
                    UnregisterBroker(
                        settings.broker_name, self.address, settings.broker_cluster_name, settings.broker_id
                    ),
                    UNREGISTER_TIMEOUT_MS,
                )
            except NetworkError as error:
                log.warning("unregistration_failed", nameserver=address, error=str(error))


def sign_of_life_ms(settings: BrokerSettings) -> int:
    """Return the period of heartbeats with which a nameserver doesn't consider the broker gone.

    It closes connections on which it receives nothing, too, however long the broker's own timeout is.
    """
    wanted_ms = settings.broker_heartbeat_interval or settings.register_name_server_period
    return max(1, min(wanted_ms, settings.broker_heartbeat_timeout_ms // LIVES, IDLE_MS_MAX // LIVES))


def _masked(topics: dict[str, TopicConfig], permission: int) -> dict[str, TopicConfig]:
    """Return the topics as clients may use them: a permission that the broker lacks is removed from every topic."""
    if permission & READ_WRITE == READ_WRITE:
        return topics
    masked = {}
    for name, topic in topics.items():
        masked[name] = TopicConfig(
            topic.topic_name, topic.read_queue_nums, topic.write_queue_nums,
            topic.perm & (permission | INHERIT), topic.topic_filter_type, topic.topic_sys_flag, topic.order,
        )  # fmt: skip
    return masked


async def _wait(event: asyncio.Event, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        pass
