"""From a seed and what a program uses to a plan of faults. Pure: the same seed and use give the same plan."""

from collections.abc import Collection, Sequence
from random import Random

from staticfire.chaos.kinds import KINDS, MILD, WEATHERS, Draw, kinds_of
from staticfire.chaos.strikes import PlannedFault, numbered
from staticfire.chaos.usage import Usage
from staticfire.protocol.errors import UsageError

STRIKES_MIN, STRIKES_MAX = 3, 5
# Faults that take a server away for long. One of them is enough in a run.
LONG = ("freeze", "kill", "restart", "nameserver")
# Faults that make one attempt of a send fail, and how many requests must be between two of them.
FAILING, APART = ("busy", "lost-answer"), 5
# In a rougher weather, so many faults of a plan are mild.
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
    wanted = random.randint(STRIKES_MIN, STRIKES_MAX)
    strikes: list[PlannedFault] = []
    for kind in _chosen(random, possible, weather, wanted):
        strike = KINDS[kind].draw(draw)
        if strike is not None:
            strikes.append(strike)
    return numbered(without_pile(strikes))


def without_pile(strikes: Sequence[PlannedFault]) -> list[PlannedFault]:
    """Return the faults without those that would fail one send again and again.

    A client tries a send three times, and a right program may rely on it: each send may fail once in mild weather.
    """
    kept: list[PlannedFault] = []
    failing: dict[object, list[int]] = {}
    for strike in strikes:
        words = dict(strike.words)
        after = int(str(words.get("after") or 0))
        places = failing.setdefault(words.get("topic"), [])
        if strike.kind in FAILING:
            if any(abs(after - place) < APART for place in places):
                continue
            places.append(after)
        kept.append(strike)
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
