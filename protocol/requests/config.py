"""Read and change a running broker's settings. RocketMQ: GetBrokerConfigResponseHeader."""

from typing import ClassVar

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import CONFIG_BYTES_MAX


@request(RequestCode.UPDATE_BROKER_CONFIG)
class UpdateBrokerConfig(Request, rename="camel"):
    """Change settings while it runs; the body is a java.util.Properties text. `staticfireClock` moves message time."""

    body_bytes_max: ClassVar[int | None] = CONFIG_BYTES_MAX


class BrokerConfigAnswer(Answer, rename="camel"):
    """All settings as a java.util.Properties text; `version` is a DataVersion in JSON."""

    version: str | None = None


@request(RequestCode.GET_BROKER_CONFIG, answer=BrokerConfigAnswer)
class GetBrokerConfig(Request, rename="camel"):
    """Ask for all settings, and for message time as `staticfireClock`."""
