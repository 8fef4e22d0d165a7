"""Chooses the faults of a seed and their times before the run, so that a subset of them can be run separately."""

from random import Random

from staticfire.simulation.workload.description import Nemesis, Workload
from staticfire.simulation.workload.strikes import FOREVER_MS, LASTING, STRIKES, At, Strike

# The pause between two faults of one machine.
PAUSE_MS = 1_000
DETAILS = 1 << 30
# The probability that a seed uses a kind of fault.
KEPT_SHARE = 0.5


def plan_strikes(workload: Workload, chance: Random, run_ms: int) -> list[Strike]:
    """Return the faults of a seed in order. No machine has two at once. Each seed leaves out some kinds at random."""
    nemesis = workload.nemesis
    kinds = [kind for kind in nemesis.kinds if targets(workload, STRIKES[kind].at)]
    kept = [kind for kind in kinds if chance.random() < KEPT_SHARE] or kinds[:1]
    strikes: list[Strike] = []
    free_at: dict[str, int] = {}
    at_ms = 0
    while kept:
        at_ms += 1 + round(chance.expovariate(1 / (nemesis.every_seconds * 1_000)))
        if at_ms >= run_ms:
            break
        strike = _one(workload, chance, chance.choice(kept), at_ms)
        if at_ms >= free_at.get(strike.target, 0):
            free_at[strike.target] = at_ms + strike.lasts_ms + PAUSE_MS
            strikes.append(strike)
    return strikes


def _one(workload: Workload, chance: Random, kind: str, at_ms: int) -> Strike:
    target = chance.choice(targets(workload, STRIKES[kind].at))
    other = chance.choice(workload.brokers.machines) if STRIKES[kind].at is At.CLIENT else ""
    lasts_ms = _duration_ms(workload.nemesis, chance)
    return Strike(at_ms, kind, target, FOREVER_MS if kind in LASTING else lasts_ms, chance.randrange(DETAILS), other)


def _duration_ms(nemesis: Nemesis, chance: Random) -> int:
    """Return a random duration on a logarithmic scale, so that short ones are as frequent as long ones."""
    low, high = (max(1.0, seconds * 1_000) for seconds in nemesis.lasts_seconds)
    return round(low * float((high / low) ** chance.random()))


def targets(workload: Workload, at: At) -> list[str]:
    """Return the machines, topics or groups that a fault can hit; an empty name means all links."""
    match at:
        case At.BROKER:
            return workload.brokers.machines
        case At.REPLICA:
            return workload.brokers.machines if workload.brokers.replicas else []
        case At.SET:
            return workload.brokers.names if workload.brokers.replicas else []
        case At.MEMBER:
            return members_of(workload)
        case At.PRODUCER:
            return producers_of(workload)
        case At.CLIENT:
            return members_of(workload) + producers_of(workload)
        case At.NAMESERVER:
            return ["nameserver"]
        case At.NETWORK:
            return [""]
        case At.SPARE_BROKER:
            return [] if workload.brokers.replicas else workload.brokers.names[1:]
        case At.SPARE_MEMBER:
            return [member for group in workload.groups for member in group.member_names[1:]]
        case At.TOPIC:
            return [topic.name for topic in workload.topics]
        case At.GROUP:
            return [group.name for group in workload.groups]
        case At.PULLING_GROUP:
            return [group.name for group in workload.groups if not group.popped]


def members_of(workload: Workload) -> list[str]:
    """Return the machines of all members."""
    return [member for group in workload.groups for member in group.member_names]


def producers_of(workload: Workload) -> list[str]:
    """Return the machines that send."""
    return [f"{one.program}-{number + 1}" for one in workload.producers for number in range(one.clients)]
