"""Commands of the check. One that fails raises `CheckFailed` with the end of its output."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TIMEOUT_S = 600
LINES_SHOWN = 25
# Variables that would change what is checked, such as the checkout's own modules.
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_CONSTRAINT", "NAMESRV_ADDR", "ROCKETMQ_ENDPOINT")


class CheckFailed(Exception):
    """A command didn't do what it must; the text has its output."""


def clean_environment(**more: str) -> dict[str, str]:
    """Return this process's environment without what belongs to the checkout, and with these variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in UNWANTED and not name.startswith(("STATICFIRE_", "ROCKETMQ_", "COVERAGE_"))
    }
    return {**kept, **more}


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return what a command prints, stderr included. Raises: CheckFailed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=clean_environment() if environment is None else environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CheckFailed(f"{' '.join(words)}: {error}") from None
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-LINES_SHOWN:])
        raise CheckFailed(f"{' '.join(words)}: exit code {done.returncode}\n{last}")
    return done.stdout
