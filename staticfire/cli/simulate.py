"""`staticfire simulate`: whole clusters on virtual time, from seeds. Exit code 1: a promise was broken."""

import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from staticfire.cli.options import Whole
from staticfire.protocol.errors import UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_SIGNAL_BASE

if TYPE_CHECKING:
    from staticfire.faults.runs.outcome import RunOutcome

HOURS_MAX = 48.0
SEEDS_SHOWN_MAX = 20
LOGGED, LOGGED_SHOWN_MAX = "log: ", 8
SIGINT = 2


class Hours(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """How long a run takes, of virtual time."""

    name = "hours"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            hours = float(str(value))
        except ValueError:
            self.fail(f"{value} is no number of hours", param, ctx)
        if not 0 < hours <= HOURS_MAX:
            self.fail(f"{value} hours: above 0 and at most {HOURS_MAX:.0f} can be", param, ctx)
        return hours


@click.command(short_help="Whole clusters on virtual time, from seeds: do all promises hold?")
@click.argument("workload", metavar="[FILE]", required=False, default="")
@click.option("--seeds", type=Whole(1), help="How many. [default: 100]")
@click.option("--first", type=Whole(0), default=1, show_default=True, help="The first of them.")
@click.option("--seed", metavar="SEED", help="One only: a number, or what a run has printed, like 4711@3f9a2c.")
@click.option("--hours", type=Hours(), default=0.1, show_default=True, help="Of virtual time, before it comes to rest.")
@click.option("--trace", is_flag=True, help="With --seed: write its timeline, a page for a browser.")
@click.option(
    "--shrink/--no-shrink", default=True, help="Look for the fewest faults with which it fails. [default: on]"
)
@click.option("--jobs", type=Whole(1), help="Processes. [default: one per core]")
def simulate(
    workload: str,
    seeds: int | None,
    first: int,
    seed: str | None,
    hours: float,
    trace: bool,
    shrink: bool,
    jobs: int | None,
) -> int:
    """Play a workload FILE (docs/simulation.md) with each seed, and check what brokers and clients promise. Without a
    FILE each seed makes up its own.

    The same seed does the same on any machine.
    """
    if seed is not None:
        if seeds is not None:
            raise UsageError("--seed and --seeds exclude each other: one run, or many")
        return _one(workload, seed, hours, trace, shrink)
    if trace:
        raise UsageError("--trace needs --seed: a page shows one run")
    from staticfire.faults.runs.many import cores

    count = 100 if seeds is None else seeds
    return _many(workload, range(first, first + count), hours, jobs or min(cores(), count), shrink)


def _one(path: str, text: str, hours: float, trace: bool, shrink: bool) -> int:
    from staticfire.faults.runs.play import Play, play
    from staticfire.faults.runs.seeds import read_seed, version_of
    from staticfire.faults.runs.swarm import maker_of

    seed, version = read_seed(text)
    make = maker_of(path)
    if version and version != version_of(path, hours):
        click.echo(
            f"simulate: seed {text} is from another version of staticfire, of the workload, or of another length (now "
            f"{version_of(path, hours)}): it may do something else",
            err=True,
        )
    outcome = play(make, Play(seed, hours, keeps_events=trace))
    if trace:
        click.echo(f"simulate: {_write_page(path, outcome)}")
    click.echo(str(outcome))
    for strike in outcome.strikes:
        click.echo(f"  {strike}")
    if not outcome.passed and shrink:
        _shrink(path, outcome, hours)
    return 0 if outcome.passed else EXIT_FAILED


def _shrink(path: str, outcome: "RunOutcome", hours: float) -> None:
    """Print the smallest run that fails the same way, as a test."""
    from staticfire.faults.runs.shrinking import Shrinker, as_scenario
    from staticfire.faults.runs.swarm import maker_of

    click.echo("simulate: looking for the fewest faults with which it fails", err=True)
    shrinker = Shrinker(maker_of(path), outcome, hours)
    smallest = shrinker.shrink()
    faults = f"{len(smallest.strikes)} of {len(outcome.strikes)} faults"
    click.echo(f"simulate: {faults} are enough, found in {shrinker.tries} tries; as a test:\n")
    click.echo(as_scenario(smallest, shrinker.hours, path))


def _write_page(path: str, outcome: "RunOutcome") -> str:
    """Write the timeline of a run into the current folder; return the file's name."""
    from staticfire.faults.runs.trace_page import trace_page

    path = path or "the swarm"
    name = f"simulation-{outcome.seed}.html"
    with open(name, "w", encoding="utf-8") as file:
        file.write(trace_page(outcome, path))
    return name


def _many(path: str, seeds: range, hours: float, jobs: int, shrink: bool) -> int:
    from staticfire.faults.runs.swarm import maker_of

    maker_of(path)  # What is wrong with it is told before anything is started.
    summary = _Summary(path, hours)
    try:
        _follow(summary, path, seeds, hours, jobs)
    except KeyboardInterrupt:
        click.echo("simulate: interrupted; so far:")
        summary.show()
        return EXIT_SIGNAL_BASE + SIGINT
    summary.show()
    if summary.first_failed is not None and shrink:
        _shrink(path, summary.first_failed, hours)
    return EXIT_FAILED if summary.failed else 0


def _follow(summary: "_Summary", path: str, seeds: range, hours: float, jobs: int) -> None:
    """Play all seeds, with a bar that says how far it is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from staticfire.faults.runs.many import play_many
    from staticfire.faults.runs.play import Play

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"simulate, {jobs} processes", total=len(seeds))
        outcomes = play_many(path, (Play(seed, hours) for seed in seeds), jobs)
        try:
            for outcome in outcomes:
                summary.add(outcome)
                bar.update(task, advance=1, description=summary.line)
                if not outcome.passed:
                    bar.console.print(summary.words_for(outcome), markup=False, highlight=False, soft_wrap=True)
        finally:
            outcomes.close()  # type: ignore[attr-defined]


class _Summary:
    """What is known of all runs so far."""

    def __init__(self, path: str, hours: float) -> None:
        self._path = path
        self._hours = hours
        self._began_s = time.monotonic()  # noqa: TID251
        self._virtual_ms = 0
        self._cpu_s = 0.0
        self._count = 0
        self._states: Counter[str] = Counter()
        self.failed: list[int] = []
        self.first_failed: RunOutcome | None = None

    def add(self, outcome: "RunOutcome") -> None:
        self._count += 1
        self._virtual_ms += outcome.virtual_ms
        self._cpu_s += outcome.cpu_s
        self._states.update(outcome.states)
        if not outcome.passed:
            self.failed.append(outcome.seed)
            if self.first_failed is None or outcome.seed < self.first_failed.seed:
                self.first_failed = outcome

    @property
    def line(self) -> str:
        return f"simulate: {len(self.failed)} failed"

    def words_for(self, outcome: "RunOutcome") -> str:
        """Return what is told of a run that has failed, with how to repeat it."""
        from staticfire.faults.runs.seeds import seed_text

        repeat = (
            f"staticfire simulate --seed {seed_text(outcome.seed, self._path, self._hours)} --hours {self._hours:g}"
        )
        return f"{outcome}\n  again: {repeat} --trace {self._path}".rstrip()

    def show(self) -> None:
        """Print it."""
        hours = self._virtual_ms / 3_600_000
        took_s = time.monotonic() - self._began_s  # noqa: TID251
        logged = [(state, count) for state, count in self._states.most_common() if state.startswith(LOGGED)]
        seen = [(state, count) for state, count in self._states.most_common() if not state.startswith(LOGGED)]
        for state, count in seen + logged[:LOGGED_SHOWN_MAX]:
            click.echo(f"  {count:8,}  {state}")
        per_minute = hours / (self._cpu_s / 60) if self._cpu_s else 0.0
        verdict = f"{self._count} seeds, {len(self.failed)} failed, {hours:.1f} h of virtual time in {took_s:.0f} s"
        click.echo(f"simulate: {verdict} ({per_minute:.1f} h per minute of a core)")
        if self.failed:
            shown = ", ".join(map(str, sorted(self.failed)[:SEEDS_SHOWN_MAX]))
            click.echo(f"simulate: failed: {shown}{' ...' if len(self.failed) > SEEDS_SHOWN_MAX else ''}")
