"""Settings of our client on a real RocketMQ. A slow machine isn't a difference between the two: requests have time."""

from staticfire.client import ClientSettings, ProducerSettings

TIMEOUT_MS = 20_000
BUSY_S = 20
"""How late something may be that happens at a certain time."""

CLIENT = ClientSettings(protocol="rocketmq", mq_client_api_timeout_ms=TIMEOUT_MS)
SENDS = ProducerSettings(client=CLIENT, send_msg_timeout_ms=TIMEOUT_MS)
