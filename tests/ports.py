"""Ports of the host that nobody uses."""

import socket
from random import Random

BELOW_EPHEMERAL = range(20_000, 31_000)
# Ports that no outgoing connection is given meanwhile.
TRIES = 200


def free_ports() -> tuple[str, str, str, str, str, str]:
    """Return a nameserver's port, for two brokers each the port two below its own and its own, and a gRPC port."""
    chance = Random()
    for _ in range(TRIES):
        first = chance.choice(BELOW_EPHEMERAL)
        ports = (first, first + 1, first + 3, first + 5, first + 7, first + 9)
        if all(_is_free(port) for port in ports):
            names, vip, broker, vip_b, broker_b, grpc = map(str, ports)
            return names, vip, broker, vip_b, broker_b, grpc
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
