"""`python -m tests.control SCHEMATHESIS [SEED]`: see the package. The same seed leads to the same requests."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from staticfire import Admin, Message, Producer
from tests.cli.commands import FREE_PORTS, Up, get

NEVER_500 = "not_a_server_error"
CHECKS = (
    "status_code_conformance", "content_type_conformance", "response_schema_conformance", "negative_data_rejection",
    "unsupported_method", "allow_header_conformance", "ignored_auth",
)  # fmt: skip
TOKEN = "correct-horse"
SEED = "1"
EMPTY = "No test cases were generated"
KNOWN = """\
[parameters]
"path.topic" = "orders"
"path.group" = "billing"
"path.id" = "order-1"
"path.number" = "1"
"""
"""Names that there are, so that more is answered than 404."""


class Round(NamedTuple):
    """One cluster, and what it is asked."""

    what: str
    seconds: int
    chosen: tuple[str, ...]
    checks: tuple[str, ...] = (NEVER_500, *CHECKS)
    config: str = ""
    token: str = ""


HARMLESS = ("--exclude-operation-id", "post_faults")
ROUNDS = (
    Round("all that leaves the cluster whole", 60, HARMLESS),
    Round("names that there are", 45, HARMLESS, config=KNOWN),
    Round("fault rules", 15, ("--include-operation-id", "post_faults"), CHECKS),
    Round("with a token", 45, HARMLESS, token=TOKEN),
)


def main() -> int:
    program, *seed = sys.argv[1:]
    failed = [one.what for one in ROUNDS if not play(program, one, *seed)]
    for what in failed:
        print(f"test-control: failed: {what}", file=sys.stderr)
    return 1 if failed else 0


def play(program: str, wanted: Round, seed: str = SEED) -> bool:
    """Ask a fresh cluster for some seconds; return whether all was well."""
    print(f"test-control: {wanted.what}", flush=True)
    with Up("up", *FREE_PORTS, *(["--control-token", wanted.token] if wanted.token else [])) as up:
        fill(up.reported("NAMESRV_ADDR"))
        get(
            f"{up.reported('CONTROL')}/openapi.json", Authorization=f"Bearer {wanted.token}"
        )  # Loaded, before time counts.
        code = ask(program, wanted, seed, up.reported("CONTROL"))
        exit_code, err = up.stop()
    inside = [line for line in err.splitlines() if "control_failed" in line]
    for line in inside[:10]:
        print(line, file=sys.stderr)
    return code == 0 and exit_code == 0 and not inside


def fill(namesrv: str) -> None:
    """Let there be messages and a group."""
    with Admin(namesrv) as admin:
        admin.create_group("billing")
    with Producer("shop", namesrv) as producer:
        for number in range(5):
            producer.send(Message("orders", b"%d" % number, tags="paid", keys=[f"order-{number}"]))


def ask(program: str, wanted: Round, seed: str, control: str) -> int:
    """Return schemathesis' exit code."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(wanted.config)
        # One worker: two threads meet a fault of CPython 3.11, whose ast module counts the depth of all of them as one.
        command = [
            str(Path(program).absolute()), "--config-file", str(config), "run", f"{control}/openapi.json",
            "--checks", ",".join(wanted.checks), "--max-time", str(wanted.seconds), "--workers", "1",
            "--request-timeout", "20", "--no-color", "--phases", "examples,coverage,fuzzing", "--warnings", "off",
            "--generation-database", "none", "--seed", seed, *wanted.chosen,
        ]  # fmt: skip
        if wanted.token:
            command += ["--header", f"Authorization: Bearer {wanted.token}"]
        shown = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, text=True)  # It has a cache.
    print(shown.stdout, flush=True)
    if EMPTY in shown.stdout:
        print("test-control: nothing was tested: the machine is too slow for this round's seconds", file=sys.stderr)
        return 1
    return shown.returncode


if __name__ == "__main__":
    sys.exit(main())
