"""Sends one message and receives it with `rocketmq-python-client`, with the keys and TLS of the environment."""

# One program, copied into an environment where nothing of ours is installed.
import json
import os
import sys
import time

from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import SimpleConsumer
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer

ENDPOINT, TOPIC, GROUP, SECONDS = sys.argv[1:5]
KEY, SECRET = (os.environ.get(f"ROCKETMQ_{name}_KEY", "") for name in ("ACCESS", "SECRET"))
TLS = os.environ.get("DRIVER_TLS") == "true"


def main() -> None:
    configuration = ClientConfiguration(ENDPOINT, Credentials(KEY, SECRET))
    for step, run in (("sent", send), ("received", receive)):
        try:
            ok, detail = run(configuration)
        except Exception as error:  # noqa: BLE001 (it is what this program reports)
            ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"step": step, "ok": ok, "detail": detail}), flush=True)
    os._exit(0)  # Some threads of the client don't end.


def send(configuration: ClientConfiguration) -> tuple[bool, str]:
    producer = Producer(configuration, [TOPIC], tls_enable=TLS)
    producer.startup()
    message = Message()
    message.topic, message.body = TOPIC, b"body"
    producer.send(message)
    return True, ""


def receive(configuration: ClientConfiguration) -> tuple[bool, str]:
    consumer = SimpleConsumer(configuration, GROUP, {TOPIC: FilterExpression()}, await_duration=5, tls_enable=TLS)
    consumer.startup()
    deadline, last = time.monotonic() + float(SECONDS), "it starts, and gets nothing"
    while time.monotonic() < deadline:
        try:
            for each in consumer.receive(1, 20):
                consumer.ack(each)
                return True, ""
        except Exception as error:  # noqa: BLE001 (the last one is reported)
            last = f"{type(error).__name__}: {error}"
    return False, last


main()
