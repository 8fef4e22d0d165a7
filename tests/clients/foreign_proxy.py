"""RocketMQ's own proxy in front of a cluster of ours: clients by gRPC talk to it, it talks to our brokers."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from tests.clients.toolchains import HERE, ClientUnavailable
from tests.ports import free_ports

SCRIPT = HERE.parent.parent / "tools" / "oracle.sh"
START_S_MAX = 60
FLAGS = [
    "-Xms256m", "-Xmx512m", "-XX:+UseG1GC",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
]  # fmt: skip
WORDS = ("startup successfully", "boot success")
_BRINGING = Lock()
"""The first one brings RocketMQ's jars; those that start beside it wait for them."""


@contextmanager
def rocketmq_proxy(namesrv: str, folder: Path) -> Iterator[str]:
    """Run the proxy in cluster mode; give its endpoint. Raises: ClientUnavailable."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        raise ClientUnavailable(f"not on the PATH: {', '.join(missing)}")
    with _BRINGING:
        found = subprocess.run(["bash", str(SCRIPT), "classpath"], capture_output=True, text=True, check=True)
    port, remoting_port, *_ = map(int, free_ports())
    (folder / "conf").mkdir(parents=True)
    settings = {
        "rocketMQClusterName": "DefaultCluster", "namesrvAddr": namesrv, "grpcServerPort": port,
        "remotingListenPort": remoting_port, "localServeAddr": "127.0.0.1",
    }  # fmt: skip
    (folder / "conf" / "rmq-proxy.json").write_text(json.dumps(settings))
    command = ["java", *FLAGS, f"-Duser.home={folder}", "-cp", found.stdout.strip()]
    command += [
        "org.apache.rocketmq.proxy.ProxyStartup",
        "-pc",
        str(folder / "conf" / "rmq-proxy.json"),
        "-pm",
        "cluster",
    ]
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            env={**os.environ, "ROCKETMQ_HOME": str(folder)},
        )  # fmt: skip
    try:
        _wait_for(process, folder / "out")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", out: Path) -> None:
    end_s = time.monotonic() + START_S_MAX
    while not any(words in out.read_text() for words in WORDS):
        if process.poll() is not None or time.monotonic() > end_s:
            raise ClientUnavailable("RocketMQ's proxy doesn't start:\n" + "\n".join(out.read_text().splitlines()[-10:]))
        time.sleep(0.1)  # house: a JVM notifies nobody
