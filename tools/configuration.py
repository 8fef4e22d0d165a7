"""The reference of settings: one table per program, from the same descriptions as `staticfire broker --settings`."""

from staticfire.broker.settings import BrokerSettings
from staticfire.launch.plan import STAND_DEFAULTS
from staticfire.nameserver.settings import NameserverSettings
from staticfire.proxy.settings import ProxySettings
from staticfire.runtime.config_help import describe

PROGRAMS = (("Broker", BrokerSettings), ("Nameserver", NameserverSettings), ("gRPC endpoint", ProxySettings))


def settings_tables() -> str:
    """Return a Markdown table of each program's settings."""
    return "\n\n".join(f"## {name}\n\n{_table(cls)}" for name, cls in PROGRAMS)


def _table(cls: type) -> str:
    lines = ["| setting | takes | default | |", "| --- | --- | --- | --- |"]
    for one in describe(cls):
        there = STAND_DEFAULTS.get(one.key) if cls is BrokerSettings else None
        note = f" {there} in `up`, `run` and `Cluster`." if there is not None else ""
        lines.append(f"| `{one.key}` | {_cell(one.takes)} | {_cell(one.default)} | {_cell(one.text + note)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
