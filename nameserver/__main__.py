"""Run a nameserver as a process: `python -m staticfire.nameserver`. Users run `staticfire nameserver`."""

import sys

from staticfire.runtime.light_start import light_start

with light_start():
    from staticfire.nameserver.server import Nameserver
    from staticfire.nameserver.settings import NameserverSettings
    from staticfire.runtime.addresses import format_address
    from staticfire.runtime.process import Program, run_program


def boot_line(settings: NameserverSettings, port: int) -> str:
    """Return the line that scripts wait for, in RocketMQ's format (NamesrvStartup)."""
    return f"The Name Server boot success. serializeType=JSON, address {format_address(settings.listen_host, port)}"


PROGRAM = Program("nameserver", NameserverSettings, Nameserver, boot_line)

if __name__ == "__main__":
    sys.exit(run_program(PROGRAM, sys.argv[1:]))
