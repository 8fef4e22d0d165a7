"""Sends one message and consumes it with PyPI's `rocketmq`, with the keys of the environment."""

# One program, copied into an environment where nothing of ours is installed.
import json
import os
import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer

NAMESRV, TOPIC, GROUP, SECONDS = sys.argv[1:5]
KEY, SECRET = (os.environ.get(f"ROCKETMQ_{name}_KEY", "") for name in ("ACCESS", "SECRET"))


def main() -> None:
    for step, run in (("sent", send), ("received", receive)):
        try:
            ok, detail = run()
        except Exception as error:  # noqa: BLE001 (it is what this program reports)
            ok, detail = False, f"{type(error).__name__}: {error}"
        print(json.dumps({"step": step, "ok": ok, "detail": detail}), flush=True)
    os._exit(0)  # Some threads of the client don't end.


def send() -> tuple[bool, str]:
    producer = prepared(Producer(f"{GROUP}-producers"))
    producer.start()
    message = Message(TOPIC)
    message.set_body("body")
    status = producer.send_sync(message).status.name
    return status == "OK", status


def receive() -> tuple[bool, str]:
    got = threading.Event()
    consumer = prepared(PushConsumer(GROUP))
    consumer.set_instance_name(f"{GROUP}-c")
    consumer.subscribe(TOPIC, lambda _: got.set(), "*")
    consumer.start()
    received = got.wait(float(SECONDS))
    return received, "" if received else "it starts, and gets nothing"


def prepared(client: Any) -> Any:
    client.set_namesrv_addr(NAMESRV)
    if KEY:
        client.set_session_credentials(KEY, SECRET, "")
    return client


main()
