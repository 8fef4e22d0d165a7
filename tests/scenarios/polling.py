"""Lite pull consumers in a simulated shop."""

from staticfire.client import LitePullConsumer, LitePullSettings, MessageQueue
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop

QUEUE = MessageQueue(TOPIC, "broker-a", 0)


def lite_pull(shop: Shop, who: str, group: str = GROUP, **settings: object) -> LitePullConsumer:
    """Return a lite pull consumer on a machine of that name, not started."""
    machine = shop.world.machine(who, host=f"10.0.4.{len(who) + sum(who.encode()) % 200}")
    chosen = LitePullSettings(client=shop.settings, **settings)  # type: ignore[arg-type]
    return LitePullConsumer(group, NAMESRV, chosen, machine)


async def poll_all(consumer: LitePullConsumer, count: int, timeout_ms: int = 2_000) -> list[bytes]:
    """Poll until so many messages are there, or nothing comes any more; return their bodies."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        messages = await consumer.poll(timeout_ms)
        if not messages:
            break
        bodies += [message.body for message in messages]
    return bodies
