"""The output of `staticfire chaos`: text for people, or with `--json` one object per run. Pure, but for its output."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from staticfire.chaos.broken import Broken
from staticfire.chaos.planned_fault import PlannedFault
from staticfire.chaos.repeating import as_command, as_test
from staticfire.chaos.running import LIMIT_S, SETTLE_S, TriedProgram
from staticfire.chaos.session import Calm, SeedResult, WantedTrial
from staticfire.chaos.usage import Usage
from staticfire.chaos.weather import impossible
from staticfire.protocol.durations import format_duration
from staticfire.protocol.nouns import counted

OUTPUT_LINES = 20
# Longer lines of a program are cut: a single one may fill the screen.
OUTPUT_LINE_CHARS = 500
OFFSET_FILES = (
    "its members keep their offsets in files (.rocketmq_offsets), which outlive a run. Let the command remove them "
    "first, or each run begins at the offsets of the one before"
)
NOT_CONSUMED = "whether it consumes everything isn't checked under faults; --limit or --settle must be longer"
Say = Callable[[str], object]


def flags_of(wanted: WantedTrial) -> list[str]:
    """Return the flags that repeat a run, besides its seed and its faults."""
    import shlex

    flags = [f"--weather {wanted.weather}"] if wanted.weather != "mild" else []
    flags += [f"--only {','.join(wanted.only)}"] if wanted.only else []
    flags += [f"--never {','.join(wanted.never)}"] if wanted.never else []
    flags += [f"--each {shlex.quote(str(each))}" for each in wanted.each]
    flags += [f"--at-rest {shlex.quote(wanted.program.at_rest)}"] if wanted.program.at_rest else []
    flags += [f"--topic {topic}" for topic in wanted.program.topics]
    flags += _flags_of_runs(wanted.program)
    return flags + [f"--set {shlex.quote(f'{name}={value}')}" for name, value in wanted.program.settings.items()]


def _flags_of_runs(program: TriedProgram) -> list[str]:
    """Return the flags with another value than their default: how long a run takes, brokers and ports."""
    values = {
        "limit": (program.limit_s, LIMIT_S),
        "settle": (program.settle_s, SETTLE_S),
        "brokers": (program.brokers, 1),
        "namesrv-port": (program.namesrv_port, 0),
        "broker-port": (program.broker_port, 0),
    }
    return [
        f"--{name} {format_duration(round(value * 1_000)) if name in ('limit', 'settle') else value}"
        for name, (value, default) in values.items()
        if value != default
    ]


class TextReport:
    """Text for people."""

    def __init__(self, wanted: WantedTrial, say: Say) -> None:
        self._wanted = wanted
        self._say = say
        self._is_service = False

    def calm(self, calm: Calm) -> None:
        self._is_service = calm.is_service
        ended = "was stopped at the limit" if calm.is_service else "exit code 0"
        if calm.problem:
            self._say(f"calm weather: {calm.problem}")
            self._show_broken(calm.broken)
            self._show_output(calm.evidence.output)
            self._say("nothing else was tried")
            return
        self._say(f"calm weather: {ended} after {calm.evidence.seconds:.1f} s; it uses {used(calm.usage)}")
        if calm.is_service:
            self._say("  it doesn't end by itself: each run takes --limit, and exit codes aren't compared")
        for (group_name, topic), left in sorted(calm.evidence.open_at_limit.items()):
            if left:
                self._say(f"  {group_name} has left {counted(left, 'message')} of {topic}: {NOT_CONSUMED}")
        for name in [name for name, group in calm.usage.groups.items() if group.is_broadcasting]:
            self._say(f"  {name} broadcasts: {OFFSET_FILES}")
        for kind in impossible(calm.usage, self._wanted.only):
            self._say(f"  {kind} can't hit anything here: the command doesn't use what it needs")

    def plan(self, seed: int, faults: Sequence[PlannedFault]) -> None:
        self._say(f"# seed {seed}")
        for fault in faults:
            self._say(f"# {fault.number}: {fault.kind}")
            self._say(fault.command)

    def shrinking(self, faults: int) -> None:
        self._say(f"  again with {counted(faults, 'fault')}")

    def seed(self, result: SeedResult) -> None:
        faults = f"{len(result.plan) - len(result.missed)} of {len(result.plan)} faults hit"
        verdict = "BROKEN" if result.broken else "kept"
        verdict = f"stopped, {verdict} so far," if result.evidence.was_stopped else verdict
        self._say(f"seed {result.seed}: {verdict} after {result.evidence.seconds:.1f} s, {faults}")
        for injected in result.evidence.injected:
            if not injected.hits:
                why = injected.problem or "what it waits for didn't come"
                self._say(f"  didn't hit: {injected.fault.command} ({why})")
        if result.undecided:
            self._say(
                f"  still open at the end: {counted(result.undecided, 'message')}; nothing is concluded from them"
            )
        if result.unrelated:
            self._say("  it failed although no fault had hit anything, so faults aren't the reason:")
            self._show_broken(result.unrelated)
        self._show_broken(result.broken)
        self._show_output(output_of(result))

    def failed(self, result: SeedResult) -> None:
        """Print how often a seed fails, with which faults, and how to repeat it."""
        command = self._wanted.program.command
        if result.tries > 1:
            self._say(f"  it failed {result.fails} of {result.tries} times")
        smallest = result.smallest or result.plan
        self._say(f"  {_which(result, len(smallest))}:")
        for fault in smallest:
            self._say(f"    {fault.command}")
        self._say(f"  repeat: {as_command(flags_of(self._wanted), result.seed, smallest, command)}")
        if result.as_in_seed is not None:
            return
        self._say("  as a test:")
        each = [str(one) for one in self._wanted.each]
        source = as_test(result.seed, smallest, result.broken, self._wanted.program, each, self._is_service)
        for line in source.splitlines():
            self._say(f"    {line}".rstrip())

    def end(self, results: Sequence[SeedResult], is_stopped: bool) -> None:
        broken = [result for result in results if result.broken]
        hits = sum(len(result.plan) - len(result.missed) for result in results)
        stopped = "stopped: " if is_stopped else ""
        seeds = counted(len(results), "seed")
        verdict = f"{len(broken)} of {seeds} broke a promise" if broken else f"{seeds}, all promises kept"
        self._say(f"{stopped}{verdict}; {counted(hits, 'fault')} hit")
        if results and not hits:
            self._say("no fault has hit anything, so nothing was tested")

    def _show_broken(self, broken: Sequence[Broken]) -> None:
        for one in broken:
            self._say(f"  {one}")
            for line in one.evidence:
                self._say(f"    {line}")

    def _show_output(self, output: str) -> None:
        lines = output.splitlines()[-OUTPUT_LINES:]
        if lines:
            self._say("  the end of its output:")
        for line in lines:
            more = len(line) - OUTPUT_LINE_CHARS
            self._say(f"    | {line[:OUTPUT_LINE_CHARS]}" + (f" ... ({more} more characters)" if more > 0 else ""))


class JsonReport:
    """One JSON object for each run."""

    def __init__(self, wanted: WantedTrial, say: Say) -> None:
        self._wanted = wanted
        self._say = say

    def _print(self, **fields: Any) -> None:
        self._say(json.dumps(fields))

    def calm(self, calm: Calm) -> None:
        groups = {name: dict(group.topics) for name, group in calm.usage.groups.items()}
        self._print(
            run="calm", exitCode=calm.evidence.exit_code, seconds=round(calm.evidence.seconds, 3),
            sends=dict(calm.usage.sends), groups=groups, broken=as_json(calm.broken), problem=calm.problem,
            output=calm.evidence.output if calm.problem else "",
        )  # fmt: skip

    def plan(self, seed: int, faults: Sequence[PlannedFault]) -> None:
        numbers, commands = [one.number for one in faults], [one.command for one in faults]
        self._print(run="plan", seed=seed, numbers=numbers, faults=commands)

    def shrinking(self, faults: int) -> None:
        """Nothing: only results are printed."""

    def seed(self, result: SeedResult) -> None:
        """Nothing: `failed` or `end` prints the whole result."""
        if not result.broken:
            self._print(**self._fields(result))

    def failed(self, result: SeedResult) -> None:
        command = self._wanted.program.command
        smallest = result.smallest or result.plan
        self._print(
            **self._fields(result), failed=result.fails, tries=result.tries,
            enough=[one.command for one in smallest],
            repeat=as_command(flags_of(self._wanted), result.seed, smallest, command),
        )  # fmt: skip

    def end(self, results: Sequence[SeedResult], is_stopped: bool) -> None:
        self._print(run="all", seeds=len(results), broken=sum(bool(one.broken) for one in results), stopped=is_stopped)

    def _fields(self, result: SeedResult) -> dict[str, Any]:
        faults = [
            {"command": one.fault.command, "hits": one.hits, "problem": one.problem} for one in result.evidence.injected
        ]
        return {
            "run": "seed", "seed": result.seed, "exitCode": result.evidence.exit_code,
            "seconds": round(result.evidence.seconds, 3), "faults": faults, "broken": as_json(result.broken),
            "undecided": result.undecided, "unrelated": as_json(result.unrelated),
            "stopped": result.evidence.was_stopped, "output": output_of(result),
        }  # fmt: skip


def output_of(result: SeedResult) -> str:
    """Return what the command printed last if its exit code is a problem; otherwise nothing."""
    is_failed = any(one.promise == "exit" for one in (*result.broken, *result.unrelated))
    return result.evidence.output if is_failed else ""


def as_json(broken: Sequence[Broken]) -> list[dict[str, Any]]:
    """Return broken promises for JSON."""
    return [
        {
            "promise": one.promise, "subject": one.subject, "words": one.words, "evidence": list(one.evidence),
            "messageIds": list(one.message_ids),
        }
        for one in broken
    ]  # fmt: skip


def _which(result: SeedResult, enough: int) -> str:
    """Return a heading for the faults that are listed below a failing seed."""
    if result.as_in_seed is not None:
        return f"its faults (not reduced: seed {result.as_in_seed} broke the same promise)"
    if not result.shrink_runs:
        return "its faults"
    return f"{enough} of {counted(len(result.plan), 'fault')} reproduce it ({counted(result.shrink_runs, 'run')})"


def used(usage: Usage) -> str:
    """Return what a program uses, in words."""
    groups = [f"{name} ({', '.join(sorted(group.topics)) or 'no message'})" for name, group in usage.groups.items()]
    topics = f"topics {', '.join(usage.topics)}"
    return f"{topics}; groups {', '.join(groups)}" if groups else topics
