"""`staticfire simulate`: whole clusters on virtual time, from seeds. Exit code 1: a promise was broken."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from staticfire.cli.options import Assignments, Whole
from staticfire.protocol.documentation import page
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.exit_codes import EXIT_FAILED, EXIT_SIGNAL_BASE
from staticfire.runtime.signals import stop_signals

if TYPE_CHECKING:
    from staticfire.simulation.runs.outcome import RunOutcome
    from staticfire.simulation.troubles import Trouble
    from staticfire.simulation.workload.loading import WorkloadMaker

HOURS_MAX = 48.0
SEEDS_SHOWN_MAX, SEEDS_TRIED_MAX = 20, 10
LOGGED, LOGGED_SHOWN_MAX = "log: ", 8


class Hours(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """The length of a run in hours of virtual time."""

    name = "hours"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            hours = float(str(value))
        except ValueError:
            self.fail(f"{value} is not a number of hours", param, ctx)
        if not 0 < hours <= HOURS_MAX:
            self.fail(f"{value} hours: must be above 0 and at most {HOURS_MAX:.0f}", param, ctx)
        return hours


@click.command(
    short_help="Simulate whole clusters on virtual time, from seeds, and check that all promises hold.",
    epilog=f"A workload: {page('simulation')} A trouble: {page('troubles')}",
)
@click.argument("workload", metavar="[FILE]", required=False, default="")
@click.option("--seeds", type=Whole(1), help="Number of seeds. [default: 100]")
@click.option("--first", type=Whole(0), default=1, show_default=True, help="The first seed.")
@click.option(
    "--seed", metavar="SEED", help="Run this seed only: a number, or a seed that a run has printed, like 4711@3f9a2c."
)
@click.option(
    "--hours",
    type=Hours(),
    default=0.1,
    show_default=True,
    help="Virtual time of each run, in hours, before it comes to rest.",
)
@click.option("--trace", is_flag=True, help="With --seed: write the timeline as a page for a browser.")
@click.option(
    "--shrink/--no-shrink",
    default=True,
    help="Search for the smallest set of faults with which the run fails. [default: on]",
)
@click.option("--jobs", type=Whole(1), help="Number of processes. [default: one per core]")
@click.option(
    "--set", "assignments", multiple=True, type=Assignments(),
    help="Change a setting or a value of the workload, like members=5 or rebalance_interval_ms=1s; may be repeated.",
)  # fmt: skip
def simulate(
    workload: str,
    seeds: int | None,
    first: int,
    seed: str | None,
    hours: float,
    trace: bool,
    shrink: bool,
    jobs: int | None,
    assignments: tuple[tuple[str, str], ...],
) -> int:
    """Play a workload FILE with each seed, and check that brokers and clients keep their promises. Without a FILE, each
    seed generates its own workload. A FILE that describes a trouble is played once per variant.

    The same seed gives the same run on any machine.
    """
    from staticfire.simulation.troubles.telling import find_trouble

    trouble = find_trouble(workload)
    if trouble is not None:
        if seeds is not None or trace:
            raise UsageError(
                f"{workload} tells a trouble and is played once per variant: it accepts neither --seeds nor --trace"
            )
        return _tell(trouble, seed)
    if seed is not None and seeds is not None:
        raise UsageError("use either --seed (one run) or --seeds (many), not both")
    if seed is None and trace:
        raise UsageError("--trace needs --seed: a page shows one run")
    from staticfire.simulation.runs.many import cores

    count = 100 if seeds is None else seeds
    played = _Played(workload, hours, dict(assignments))
    with _stops_as_interrupts() as came:
        try:
            if seed is not None:
                return _one(played, seed, trace, shrink)
            return _many(played, range(first, first + count), jobs or min(cores(), count), shrink)
        except KeyboardInterrupt:  # The results so far are already printed.
            return EXIT_SIGNAL_BASE + (came[0] if came else signal.SIGINT)


@contextmanager
def _stops_as_interrupts() -> Iterator[list[int]]:
    """Treat other stop signals like Ctrl-C, which asyncio handles. Yield the list of those that arrived."""
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # Shells set this for background processes.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    others = [number for number in stop_signals() if number != signal.SIGINT]
    usual = {number: signal.signal(number, interrupt) for number in others}
    try:
        yield came
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


class _Played(NamedTuple):
    """What to simulate: a workload file, a length, and changes to the workload."""

    path: str
    hours: float
    changes: dict[str, str]

    def maker(self) -> "WorkloadMaker":
        from staticfire.simulation.runs.swarm import maker_of

        return maker_of(self.path, self.changes)

    def version(self) -> str:
        from staticfire.simulation.runs.seeds import version_of

        return version_of(self.path, self.hours, self.changes)

    def command(self, seed: int) -> str:
        """Return the command that repeats a seed."""
        from staticfire.simulation.runs.seeds import again_command

        return again_command(seed, self.path, self.hours, self.changes)


def _tell(trouble: "Trouble", seed: str | None) -> int:
    """Print the result of each way to cause a trouble, or to avoid it."""
    from staticfire.simulation.runs.seeds import read_seed
    from staticfire.simulation.troubles.telling import lines_of
    from staticfire.simulation.troubles.trouble import SEED

    click.echo(trouble.title)
    for link in trouble.links:
        click.echo(f"  {link}")
    lines = lines_of(trouble, SEED if seed is None else read_seed(seed)[0])
    rows = [list(lines[0]), *([str(cell) for cell in line.values()] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for way, *facts in rows:
        cells = [fact.rjust(width) for fact, width in zip(facts, widths[1:], strict=True)]
        click.echo("  ".join([way.ljust(widths[0]), *cells]))
    return 0


def _one(played: _Played, text: str, trace: bool, shrink: bool) -> int:
    from staticfire.simulation.runs.play import Play, play
    from staticfire.simulation.runs.seeds import read_seed

    seed, version = read_seed(text)
    make = played.maker()
    if version and version != played.version():
        click.echo(
            f"simulate: seed {text} is from another version of staticfire or of the workload, or from a run of another "
            f"length (now {played.version()}): the run may differ",
            err=True,
        )
    try:
        outcome = play(make, Play(seed, played.hours, keeps_events=trace))
    except KeyboardInterrupt:
        click.echo(f"simulate: interrupted; there is no result for seed {seed} yet")
        raise
    click.echo(str(outcome))
    for strike in outcome.strike_lines:
        click.echo(f"  {strike}")
    is_written = not trace or _write_page(played, outcome)
    if not outcome.passed and shrink:
        _shrink(played, outcome)
    return 0 if outcome.passed and is_written else EXIT_FAILED


def _shrink(played: _Played, outcome: "RunOutcome") -> None:
    """Find the smallest run that fails in the same way; print it as a test."""
    from staticfire.simulation.runs.play import freeze_for_good
    from staticfire.simulation.runs.shrinking import Shrinker, as_scenario

    click.echo("simulate: searching for the smallest set of faults with which it fails", err=True)
    shrinker = Shrinker(played.maker(), outcome, played.hours)
    freeze_for_good()
    smallest = shrinker.shrink()
    if not shrinker.is_repeated:
        click.echo(
            "simulate: the same seed did not fail in the same way again, so there is no smaller run. Something in the "
            "workload doesn't follow from the seed: the system's clock or threads, secrets, os.urandom, the order of a "
            "set, or what an earlier run has left in a variable"
        )
        return
    faults = f"{len(smallest.strikes)} of {len(outcome.strikes)} faults"
    click.echo(f"simulate: {faults} are enough, found in {shrinker.tries} tries; as a test:\n")
    click.echo(as_scenario(smallest, shrinker.hours, played.path, played.changes))


def _write_page(played: _Played, outcome: "RunOutcome") -> bool:
    """Write the timeline of a run into the current folder. Print its name, or the error. Return whether it worked."""
    from staticfire.simulation.runs.trace_page import trace_page

    page = Path(f"simulation-{outcome.seed}.html")
    again = f"{played.command(outcome.seed)} --trace"
    text = trace_page(outcome, played.path or "the swarm", again)
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        words = f"the page {page} can't be written to {Path.cwd()}: {error.strerror}"
        click.echo(f"simulate: {words}; run the same command in a writable folder", err=True)
        return False
    click.echo(f"simulate: {page}")
    return True


def _many(played: _Played, seeds: range, jobs: int, shrink: bool) -> int:
    _check(played.maker(), seeds)
    summary = _Summary(played)
    try:
        _follow(summary, played, seeds, jobs)
    except (KeyboardInterrupt, ClientError) as error:
        click.echo(f"simulate: {'stopped' if isinstance(error, ClientError) else 'interrupted'}; so far:")
        summary.show()
        raise
    summary.show()
    if summary.first_failed is not None and shrink:
        _shrink(played, summary.first_failed)
    return EXIT_FAILED if summary.failed else 0


def _check(make: "WorkloadMaker", seeds: range) -> None:
    """Report an error of the workload before the start. It may fail for some seeds, but not for all of the first ones.

    Raises: UsageError.
    """
    from staticfire.simulation.runs.seeds import made_for
    from staticfire.simulation.workload.loading import NotMade

    failures = []
    for seed in seeds[:SEEDS_TRIED_MAX]:
        try:
            made_for(make, seed)
            return
        except NotMade as error:
            failures.append(error)
    raise failures[0]


def _follow(summary: "_Summary", played: _Played, seeds: range, jobs: int) -> None:
    """Run all seeds, with a progress bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from staticfire.simulation.runs.many import play_many
    from staticfire.simulation.runs.play import Play

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"simulate, {jobs} processes", total=len(seeds))
        outcomes = play_many(played.path, (Play(seed, played.hours) for seed in seeds), jobs, played.changes)
        try:
            for outcome in outcomes:
                summary.add(outcome)
                bar.update(task, advance=1, description=summary.line)
                if not outcome.passed:
                    bar.console.print(summary.words_for(outcome), markup=False, highlight=False, soft_wrap=True)
        finally:
            outcomes.close()  # type: ignore[attr-defined]


class _Summary:
    """The results of all runs so far."""

    def __init__(self, played: _Played) -> None:
        self._played = played
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
            is_first = self.first_failed is None or outcome.seed < self.first_failed.seed
            if is_first and outcome.was_played:
                self.first_failed = outcome

    @property
    def line(self) -> str:
        return f"simulate: {len(self.failed)} failed"

    def words_for(self, outcome: "RunOutcome") -> str:
        """Return the text about a failed run, with the command that repeats it."""
        return f"{outcome}\n  again: {self._played.command(outcome.seed)} --trace"

    def show(self) -> None:
        """Print the summary."""
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
