"""Write docs/terminal.svg: a real command-line session as a picture for README."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from staticfire import Cluster

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "terminal.svg"
COLUMNS = 118
SESSION = (
    'send orders "12.50" --tag paid --key order-17',
    'send orders "7.00" --tag paid --key order-18 --delay-level 18',
    "consume orders --group billing --from first --max 1 --timeout 10s",
    "explain billing",
    "clock advance 2h",
    "consume orders --group billing --max 1 --timeout 10s",
)


def main() -> None:
    """Run the session in its own cluster, and write the picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115 - open until this ends
    with Cluster() as cluster:
        console.print(Text.assemble(("$ ", "green"), ("staticfire up &", "bold")))
        console.print(f"ready NAMESRV_ADDR={cluster.namesrv} ...")
        for line in SESSION:
            console.print(Text.assemble(("\n$ ", "green"), (f"staticfire {line}", "bold")))
            done = subprocess.run(
                [sys.executable, "-m", "staticfire", *shlex.split(line)],
                env={**os.environ, "NAMESRV_ADDR": cluster.namesrv, "COLUMNS": str(COLUMNS)},
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            console.print(Text((done.stdout or done.stderr).rstrip("\n")))
    console.save_svg(str(PICTURE), title="staticfire")


if __name__ == "__main__":
    main()
