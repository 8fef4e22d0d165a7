"""Plan the faults of a seed, from what a program uses. Pure: the same seed and use give the same plan."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from random import Random

from staticfire.chaos.kinds import KINDS, MILD, WEATHERS, Draw, kinds_of
from staticfire.chaos.planned_fault import Begin, PlannedFault, numbered
from staticfire.chaos.usage import Usage
from staticfire.protocol.errors import UsageError

FAULTS_MIN, FAULTS_MAX = 3, 5
MADE_UP = re.compile(r"[0-9]{5,}|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}")
# Faults during which a server is away for long. A run has at most one of them.
LONG = ("freeze", "kill", "restart", "nameserver")
# Faults that make one attempt of a send fail, and how many requests must be between two of them.
FAILING, APART = ("busy", "lost-answer"), 5
# The share of mild faults in the plan of a rougher weather.
MILD_SHARE = 0.5


def plan(
    seed: int, usage: Usage, weather: str, only: Collection[str] = (), never: Collection[str] = ()
) -> list[PlannedFault]:
    """Return the faults of a seed, of different kinds as long as there are enough."""
    random = Random(f"{weather}/{seed}")
    draw = Draw(random, usage)
    allowed = [kind for kind in (only or kinds_of(weather)) if kind not in never]
    possible = [kind for kind in allowed if KINDS[kind].draw(Draw(Random(0), usage)) is not None]
    if not possible:
        return []
    wanted = random.randint(FAULTS_MIN, FAULTS_MAX)
    faults: list[PlannedFault] = []
    for kind in _chosen(random, possible, weather, wanted):
        fault = KINDS[kind].draw(draw)
        if fault is not None:
            faults.append(fault)
    return numbered([for_any_name(fault) for fault in without_repeated_failures(faults)])


def for_any_name(fault: PlannedFault) -> PlannedFault:
    """Return the fault for any topic or group, if the name that it has is a new one in each run."""
    words = tuple(
        (name, value) for name, value in fault.words if not (name in ("topic", "group") and is_made_up(str(value)))
    )
    begin = fault.begin
    if begin is not None:
        kept = {name: "" if is_made_up(name) else name for name in (begin.group, begin.topic)}
        begin = Begin(begin.count, kept[begin.group], kept[begin.topic])
    group = "" if is_made_up(fault.group) else fault.group
    return replace(fault, words=words, begin=begin, group=group)


def is_made_up(name: str) -> bool:
    """Return whether a name looks like one that a program makes up for each run, as tests often do."""
    return MADE_UP.search(name) is not None


def without_repeated_failures(faults: Sequence[PlannedFault]) -> list[PlannedFault]:
    """Return the faults without those that would fail one send again and again.

    A client tries a send three times, and a right program may rely on it: each send may fail once in mild weather.
    """
    kept: list[PlannedFault] = []
    failing: dict[object, list[int]] = {}
    for fault in faults:
        words = dict(fault.words)
        after = int(str(words.get("after") or 0))
        places = failing.setdefault(words.get("topic"), [])
        if fault.kind in FAILING:
            if any(abs(after - place) < APART for place in places):
                continue
            places.append(after)
        kept.append(fault)
    return kept


def impossible(usage: Usage, kinds: Collection[str]) -> list[str]:
    """Return the kinds that can't hit anything that the program uses."""
    return [kind for kind in kinds if KINDS[kind].draw(Draw(Random(0), usage)) is None]


def check_kinds(kinds: Collection[str]) -> None:
    """Raises: UsageError (an unknown kind)."""
    from difflib import get_close_matches

    for kind in kinds:
        if kind not in KINDS:
            meant = get_close_matches(kind, KINDS, 1)
            words = f"did you mean {meant[0]}?" if meant else f"the kinds are {', '.join(KINDS)}"
            raise UsageError(f"{kind!r} is not a kind of fault; {words}")


def _chosen(random: Random, possible: list[str], weather: str, wanted: int) -> list[str]:
    """Choose kinds: each once before any is chosen again, and at most one that takes long."""
    harder = [kind for kind in possible if WEATHERS.index(KINDS[kind].weather) > 0]
    if weather != MILD and harder and len(harder) < len(possible):
        mild = [kind for kind in possible if kind not in harder]
        rest = _shuffled(random, mild)[: max(1, round(wanted * MILD_SHARE))]
        order = [*_shuffled(random, harder)[: wanted - len(rest)], *rest]
    else:
        order = _shuffled(random, possible)
        while len(order) < wanted:
            order += _shuffled(random, possible)
    chosen: list[str] = []
    for kind in order:
        is_second_long = kind in LONG and any(one in LONG for one in chosen)
        if len(chosen) < wanted and not is_second_long:
            chosen.append(kind)
    return chosen


def _shuffled(random: Random, kinds: list[str]) -> list[str]:
    return random.sample(kinds, len(kinds))
