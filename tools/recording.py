"""Write docs/terminal.svg, the picture at the start of README and of the site: `make recording`.

It is a real session: each command is run, and the picture shows what it printed. A consumer runs beside them. It wants
only refunds, so that `staticfire explain` has a cause to name.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from staticfire import ClientSettings, Cluster, ConsumeStatus, PushConsumer, PushSettings

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "terminal.svg"
COLUMNS = 112
SESSION = (
    ('send orders "12.50" --tag paid --key order-17', "A program consumes the topic orders in the group billing."),
    ("explain billing", "It gets nothing. Why?"),
    ('send orders "7.00" --tag refunded --key order-18 --delay-level 18', "A refund that is due in two hours:"),
    ("clock advance 2h", ""),
)


def main() -> None:
    """Run the session in its own cluster, and write the picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115 - open until this ends
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders")
        _show(console, "staticfire up &", f"ready NAMESRV_ADDR={cluster.namesrv} ...")
        with _billing(cluster.namesrv):
            for line, words in SESSION:
                if words:
                    console.print(Text(f"\n# {words}", "dim"))
                _show(console, f"staticfire {line}", _run(line, cluster.namesrv))
    PICTURE.write_text(_without_web_fonts(console.export_svg(title="staticfire")))


def _billing(namesrv: str) -> PushConsumer:
    settings = PushSettings(client=ClientSettings(instance_name="billing-1"))
    consumer = PushConsumer("billing", namesrv, settings)
    consumer.subscribe("orders", "refunded")
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    return consumer


def _run(line: str, namesrv: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "staticfire", *shlex.split(line)],
        env={**os.environ, "NAMESRV_ADDR": namesrv, "COLUMNS": str(COLUMNS)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout or done.stderr


def _show(console: Console, command: str, printed: str) -> None:
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    console.print(Text(printed.rstrip("\n")), highlight=False)


def _without_web_fonts(picture: str) -> str:
    """Return the picture without the fonts that rich has browsers load from elsewhere."""
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    return picture.replace("Fira Code,", "Fira Code, ui-monospace, Menlo, Consolas,")


if __name__ == "__main__":
    main()
