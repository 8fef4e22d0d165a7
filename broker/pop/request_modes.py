"""Whether a group pulls or pops the messages of a topic. Saved in messageRequestMode.json, as in RocketMQ."""

import msgspec

from staticfire.broker.config_files import MODES_FILE, ConfigFiles
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.requests.assignment import MODE_PULL, MessageRequestMode, MessageRequestModes


class RequestModes:
    """The modes that were set, by topic and group. RocketMQ: MessageRequestModeManager."""

    def __init__(self, config_files: ConfigFiles) -> None:
        """Raises: StorageError (the file can't be read)."""
        self._config_files = config_files
        self.modes = MessageRequestModes({})
        config_files.restore(MODES_FILE, self._snapshot, self._take_in)

    def find(self, topic: str, group: str, settings: BrokerSettings) -> MessageRequestMode:
        """Return the mode of a group for a topic."""
        mode = self.modes.message_request_mode_map.get(topic, {}).get(group)
        if mode is not None:
            return mode
        if is_retry_topic(topic):
            return MessageRequestMode(topic, group, MODE_PULL)
        return MessageRequestMode(
            topic, group, settings.default_message_request_mode, settings.default_pop_share_queue_num
        )

    async def put(self, mode: MessageRequestMode) -> None:
        """Set a mode; return after it is saved. Raises: StorageError."""
        self.modes.message_request_mode_map.setdefault(mode.topic, {})[mode.consumer_group or ""] = mode
        self._config_files.changed(MODES_FILE)
        await self._config_files.saved(MODES_FILE)

    def replace(self, data: bytes) -> None:
        """Replace all modes by those in the file's form. The change is saved soon. Raises: msgspec.MsgspecError."""
        self._take_in(data)
        self._config_files.changed(MODES_FILE)

    def forget(self) -> None:
        """Forget all modes. The change is saved soon."""
        if self.modes.message_request_mode_map:
            self.modes = MessageRequestModes({})
            self._config_files.changed(MODES_FILE)

    def _snapshot(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self.modes), indent=1)

    def _take_in(self, data: bytes) -> None:
        self.modes = msgspec.json.decode(data, type=MessageRequestModes)
