"""The gRPC endpoint as a process: `python -m staticfire.proxy`. Users start it by `staticfire proxy`."""

import sys

from staticfire.runtime.light_start import light_start

with light_start():
    from staticfire.proxy.server import Proxy
    from staticfire.proxy.settings import ProxySettings
    from staticfire.runtime.addresses import format_address
    from staticfire.runtime.process import Program, run_program


def boot_line(settings: ProxySettings, port: int) -> str:
    """Return the line that scripts wait for, as RocketMQ writes it (ProxyStartup), with the endpoint's address."""
    address = format_address(settings.listen_host, port)
    return f"rocketmq-proxy startup successfully, gRPC endpoint {address}, name server {settings.namesrv_addr}"


PROGRAM = Program("proxy", ProxySettings, Proxy, boot_line)

if __name__ == "__main__":
    sys.exit(run_program(PROGRAM, sys.argv[1:]))
