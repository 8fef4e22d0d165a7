"""A failing run as one command, and as a test with fixed rules. Pure."""

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticfire.chaos.broken import Broken
from staticfire.chaos.planned_fault import CLIENT, MEMBER, PlannedFault

if TYPE_CHECKING:
    from staticfire.chaos.running import TriedProgram

_TLS = ["    if rocketmq.client_settings.tls:", '        environment["STATICFIRE_TLS_ENABLE"] = "true"']


def as_command(flags: Sequence[str], seed: int, faults: Sequence[PlannedFault], command: Sequence[str]) -> str:
    """Return the command that runs the program under these faults of a seed. `flags`: all others that matter."""
    chosen = [f"--faults {','.join(str(one.number) for one in faults)}"] if faults else []
    return " ".join(["staticfire chaos", f"--seed {seed}", *chosen, *flags, "--", shlex.join(command)])


def as_test(
    seed: int,
    faults: Sequence[PlannedFault],
    broken: Sequence[Broken],
    program: "TriedProgram",
    each: Sequence[str] = (),
    is_service: bool = False,
) -> str:
    """Return the source code of a test that repeats a run with fixed rules. `each`: the conditions of `--each`.

    With topics of `--topic`, the program may be a gRPC client. `is_service`: it doesn't end by itself.
    """
    rules = [f"    {one.call}" for one in faults if one.begin is None]
    later = [line for one in faults if one.begin is not None for line in _later(one)]
    promise = str(broken[0]).replace("\\", "\\\\").replace('"', "'") if broken else ""
    imports = (
        ["import os", "import subprocess", ""] if not later else ["import os", "import subprocess", "import time", ""]
    )
    body = [
        '    environment = {**os.environ, "NAMESRV_ADDR": cluster.namesrv}',
        *(['    environment["ROCKETMQ_ENDPOINT"] = cluster.grpc_endpoint'] if program.topics else []),
        *(_TLS if "tls.server.mode" in program.settings else []),
        *(f"    subprocess.run({json.dumps(one.command)}, env=environment, check=True)" for one in program.topics),
        *rules,
        f"    program = subprocess.Popen({json.dumps(list(program.command))}, env=environment)",
        *later,
        *(_end_at(program.limit_s) if is_service else ["    assert program.wait(timeout=120) == 0"]),
        *_at_rest(program),
        *(f"    assert_each(cluster, {condition!r})" for condition in each),
    ]
    return "\n".join(
        [
            *imports,
            "import pytest",
            *(["", "from staticfire.chaos.asserting import assert_each"] if each else []),
            "",
            "",
            f"@pytest.mark.rocketmq({_cluster_of(program)})",
            f"def test_seed_{seed}(rocketmq):",
            f'    """{promise}"""',
            "    cluster = rocketmq.cluster",
            *body,
            "",
        ]
    )


def _cluster_of(program: "TriedProgram") -> str:
    """Return the parameters of the marker."""
    wanted = {
        "brokers": program.brokers if program.brokers > 1 else None,
        "grpc": True if program.topics else None,
        "namesrv_port": program.namesrv_port or None,
        "broker_port": program.broker_port or None,
        "settings": dict(program.settings) or None,
    }
    return ", ".join(['isolation="process"', *(f"{name}={value!r}" for name, value in wanted.items() if value)])


def _end_at(limit_s: float) -> list[str]:
    return [
        "    with pytest.raises(subprocess.TimeoutExpired):",
        f"        program.wait(timeout={limit_s:g})",
        "    program.kill()",
        "    program.wait()",
    ]


def _at_rest(program: "TriedProgram") -> list[str]:
    if not program.at_rest:
        return []
    limit = f"timeout={program.at_rest_limit_s:g}"
    return [f"    subprocess.run({program.at_rest!r}, shell=True, env=environment, check=True, {limit})"]


def _later(fault: PlannedFault) -> list[str]:
    """Return the lines for a fault that begins in the middle of a run."""
    begin = fault.begin
    assert begin is not None
    if not begin.topic:
        which = f'"delivered", group={begin.group!r}' if begin.group else '"delivered"'
        waits = f"while len(cluster.journal({which})) <= {begin.count}:"
    else:
        waits = f'while len(cluster.requests("SEND_MESSAGE_V2", topic={begin.topic!r})) <= {begin.count}:'
    lines = [f"    {waits}", "        time.sleep(0.03)"]
    if fault.how == MEMBER:
        member = f'["staticfire", "member", {fault.group!r}, "--stay", "{fault.stay_ms}ms"]'
        lines += [f"    {fault.call}"] if fault.words else []
        return [*lines, f"    subprocess.run({member}, env=environment, check=True)"]
    if fault.how == CLIENT:
        return [*lines, f"    client = cluster.members({fault.group!r})[0].client_id", f"    {_of_client(fault)}"]
    return [*lines, f"    {fault.call}"]


def _of_client(fault: PlannedFault) -> str:
    words = dict(fault.words)
    _, _, broker = str(words["partition"]).partition("/")
    return f'cluster.faults.add(partition=f"{{client}}/{broker}", lifetime={words["lifetime"]!r})'
