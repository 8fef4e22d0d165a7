"""The rules of one server, and their decisions. Pure: times are passed in, each rule's seed makes its random numbers.

Rules are applied in the order in which they were added. Delays add up. The first rule that ends a request (drop,
refuse, close) is the last one applied. A rule hits if it matches the request, its period includes the current time, it
hasn't reached its number of hits, and its random generator decides so. So `times` counts hits, not requests; `after`
counts the matching requests before.
"""

from collections.abc import Iterable
from random import Random

import msgspec

from staticfire.faults import actions
from staticfire.faults.matching import Subject, is_meant, is_meant_of
from staticfire.protocol.requests.faults import FaultRule, FaultState
from staticfire.protocol.times import MessageMs, UptimeMs

RULES_MAX = 1_000

REFUSALS = frozenset({actions.REFUSE, actions.READ_ONLY})
ENDS = REFUSALS | {actions.DROP, actions.CLOSE, actions.PARTITION}


class Ruling(msgspec.Struct, gc=False):
    """The decision about a request, a response, or a request of the server's own."""

    delays_ms: dict[int, int] = {}
    """By the numbers of the rules that delay it."""
    end: FaultRule | None = None
    """The rule that ends it."""
    refused: dict[int, FaultRule] = {}
    """For a request with many messages: the rules that refuse some of them, by the positions of the messages."""
    skew_ms: int = 0
    duplicates: int = 0
    limits: dict[int, int] = {}
    """Bytes per second, by the numbers of the rules that limit its bandwidth."""
    damage: Random | None = None
    """The random generator that chooses the byte to change."""
    hits: list["ActiveRule"] = []
    """All rules that hit."""

    @property
    def delay_ms(self) -> int:
        """The sum of the delays."""
        return sum(self.delays_ms.values())

    @property
    def bytes_per_second(self) -> int:
        """The lowest limit; 0: there is none."""
        return min(self.limits.values(), default=0)

    def release(self, numbers: Iterable[int] | None) -> None:
        """Remove the delays and limits by the rules with these numbers; None: those by all rules."""
        for number in [*self.delays_ms, *self.limits] if numbers is None else numbers:
            self.delays_ms.pop(number, None)
            self.limits.pop(number, None)


class ActiveRule:
    """A rule that is active on this server."""

    def __init__(self, rule: FaultRule, name: str, uptime_ms: UptimeMs) -> None:
        """`name`: the name of the server. It is part of the seed, so that two servers don't make the same decisions."""
        self.rule = rule
        self.hits = 0
        self.passed = 0
        """How many matching requests have passed because the rule begins after them."""
        self.ends_ms = UptimeMs(uptime_ms + rule.lifetime_ms) if rule.lifetime_ms else None
        self.random = Random(f"{rule.seed}/{name}")

    @property
    def is_used_up(self) -> bool:
        """Whether the rule has reached its number of hits."""
        return 0 < self.rule.times <= self.hits

    def may_hit(self, direction: str, uptime_ms: UptimeMs, message_ms: MessageMs) -> bool:
        """Return whether the rule can hit at this time in this direction, regardless of the request."""
        rule = self.rule
        if rule.direction not in (direction, actions.EVERYTHING) or self.is_used_up:
            return False
        if rule.action == actions.DISK_FULL:
            # The store itself refuses.
            return False
        if self.ends_ms is not None and uptime_ms >= self.ends_ms:
            return False
        return rule.from_ms <= message_ms and (rule.until_ms < 0 or message_ms < rule.until_ms)

    def hits_now(self) -> bool:
        """Decide by the number of earlier requests and the probability whether the rule hits, and count the hit."""
        rule = self.rule
        if self.passed < rule.after:
            self.passed += 1
            return False
        if self.is_used_up or (rule.probability < 1 and self.random.random() >= rule.probability):
            return False
        self.hits += 1
        return True

    def state(self, uptime_ms: UptimeMs) -> FaultState:
        """Return the rule and its state, as it is shown."""
        return FaultState(self.rule, self.hits, -1 if self.ends_ms is None else max(0, self.ends_ms - uptime_ms))


class RuleBook:
    """All rules of one server, in the order in which they were added."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rules: dict[int, ActiveRule] = {}
        self._codes: frozenset[int] | None = frozenset()
        """The codes that rules are about, without those that have reached their number of hits; None: all codes."""

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, number: object) -> bool:
        return number in self._rules

    def add(self, rule: FaultRule, uptime_ms: UptimeMs) -> None:
        """Add a rule after the others, under its number."""
        self._rules[rule.number] = ActiveRule(rule, self._name, uptime_ms)
        self._collect_codes()

    def remove(self, number: int) -> FaultRule | None:
        """Remove a rule and return it; None if there is no rule with that number."""
        active = self._rules.pop(number, None)
        self._collect_codes()
        return None if active is None else active.rule

    def passing(self) -> list[int]:
        """Return the numbers of the rules that are removed with all others."""
        return [number for number, active in self._rules.items() if not active.rule.stays]

    def has(self, action: str) -> bool:
        """Return whether there is a rule with an action."""
        return any(active.rule.action == action for active in self._rules.values())

    def concerns(self, code: int) -> bool:
        """Return whether a rule may apply to a request with that code, or to its response."""
        return self._codes is None or code in self._codes

    def _collect_codes(self) -> None:
        rules = [
            active.rule
            for active in self._rules.values()
            if not active.is_used_up and active.rule.action != actions.DISK_FULL
        ]
        codes = frozenset(code for rule in rules for code in rule.codes)
        self._codes = codes if all(rule.codes for rule in rules) else None

    def states(self, uptime_ms: UptimeMs) -> list[FaultState]:
        """Return all rules as they are shown."""
        return [active.state(uptime_ms) for active in self._rules.values()]

    def judge(self, direction: str, subject: Subject, uptime_ms: UptimeMs, message_ms: MessageMs) -> Ruling | None:
        """Decide about a request, a response, or a request of the server's own; None: no rule hits. Count hits."""
        ruling: Ruling | None = None
        for active in self._rules.values():
            if not active.may_hit(direction, uptime_ms, message_ms) or not is_meant(active.rule, subject):
                continue
            if active.rule.action in REFUSALS and subject.parts:
                refused = _refused(active, subject, ruling)
                if refused:
                    ruling = ruling or Ruling()
                    ruling.refused = ruling.refused | refused
                    ruling.hits.append(active)
                    self._note_end(active)
                continue
            if active.hits_now():
                self._note_end(active)
                ruling = _with(ruling or Ruling(), active)
                if ruling.end is not None:
                    break
        return ruling

    def _note_end(self, active: ActiveRule) -> None:
        if active.is_used_up:
            self._collect_codes()


def _refused(active: ActiveRule, subject: Subject, ruling: Ruling | None) -> dict[int, FaultRule]:
    """Return which messages of a request a rule refuses. Each of them counts as one send and as one hit."""
    done = {} if ruling is None else ruling.refused
    return {
        index: active.rule
        for index, part in enumerate(subject.parts)
        if index not in done and is_meant_of(active.rule, part.topic, part.queue_id) and active.hits_now()
    }


def _with(ruling: Ruling, active: ActiveRule) -> Ruling:
    """Return the decision with the effect of one more rule added."""
    rule = active.rule
    ruling.hits.append(active)
    if rule.action in ENDS:
        ruling.end = rule
    elif rule.action == actions.DELAY:
        jitter_ms = active.random.randint(-rule.jitter_ms, rule.jitter_ms) if rule.jitter_ms else 0
        ruling.delays_ms[rule.number] = rule.delay_ms + jitter_ms
    elif rule.action == actions.DUPLICATE:
        ruling.duplicates += 1
    elif rule.action == actions.SKEW:
        ruling.skew_ms += rule.skew_ms
    elif rule.action == actions.BANDWIDTH:
        ruling.limits[rule.number] = rule.bytes_per_second
    elif rule.action == actions.CORRUPT:
        ruling.damage = active.random
    return ruling
