"""A broker as a process: `python -m staticfire.broker`. The command for people is `staticfire broker`."""

import sys

from staticfire.runtime.light_start import light_start

with light_start():
    from staticfire.broker.server import Broker
    from staticfire.broker.settings import BrokerSettings, reach_of
    from staticfire.runtime.addresses import format_address
    from staticfire.runtime.process import Program, run_program


def boot_line(settings: BrokerSettings, port: int) -> str:
    """Return the line that scripts wait for, in RocketMQ's format (BrokerStartup)."""
    address = format_address(*reach_of(settings).address((settings.listen_host, port), is_near=True))
    line = f"The broker[{settings.broker_name}, {address}] boot success. serializeType=JSON"
    return f"{line} and name server is {settings.namesrv_addr}" if settings.namesrv_addr else line


PROGRAM = Program("broker", BrokerSettings, Broker, boot_line)

if __name__ == "__main__":
    sys.exit(run_program(PROGRAM, sys.argv[1:]))
