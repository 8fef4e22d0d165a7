"""Add and remove fault rules on one server. They are kept in memory: a process that starts has none.

Behaviour
- A rule is active from its response on. The first nameserver assigns the numbers. No number is used twice, so that no
  user removes another user's rule after their own rule has ended.
- A rule about requests that this server doesn't handle is refused: another server may accept it.
- When its lifetime ends, a rule is removed as by a user. What it delays or slows at that moment arrives at once:
  requests are handled before the response to the removal. So a reset, which removes rules first, deletes what they
  store.
"""

import asyncio

from staticfire.faults import actions
from staticfire.faults.book import RULES_MAX, RuleBook
from staticfire.faults.gate import FaultGate
from staticfire.faults.parsing import checked
from staticfire.faults.showing import in_words
from staticfire.faults.site import FaultSite
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.faults import (
    FaultAdded,
    FaultAddedAnswer,
    FaultRemovedAnswer,
    FaultRule,
    FaultsAnswer,
    FaultsThere,
)
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.log import logger

log = logger("faults")


class FaultAdministration:
    """Adds, shows and removes rules."""

    def __init__(self, site: FaultSite) -> None:
        self._site = site
        self._book = RuleBook(site.name)
        self._gate = FaultGate(site, self._book)
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._last_number = 0

    def add(self, call: Call) -> Answer:
        """Add a rule."""
        rule: FaultRule = call.request.body
        site, book = self._site, self._book
        try:
            checked(rule)
        except UsageError as error:
            return refusal(ResponseCode.INVALID_PARAMETER, str(error))
        why_not = self._why_not(rule)
        if why_not:
            return refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, why_not)
        if rule.number in book or rule.number < 1 or len(book) >= RULES_MAX:
            words = f"rule {rule.number} already exists, or the limit of {RULES_MAX} rules is reached"
            return refusal(ResponseCode.ILLEGAL_OPERATION, words)
        unseen = site.unseen(rule)
        if 0 <= rule.until_ms <= site.message_ms():
            unseen.append("until")
        uptime_ms = site.clock.uptime_ms()
        book.add(rule, uptime_ms)
        self._gate.shut()
        self._gate.let_pass(call)
        if rule.action in site.switches:
            site.switches[rule.action](True)
        if rule.lifetime_ms:
            at_s = (uptime_ms + rule.lifetime_ms) / 1_000
            self._timers[rule.number] = asyncio.get_running_loop().call_at(at_s, self._expire, rule.number)
        log.warning("fault_added", server=site.name, number=rule.number, rule=in_words(rule))
        return FaultAddedAnswer(body=FaultAdded(unseen))

    def get(self, call: Call) -> Answer:
        """Return all rules; if requested, assign the number of a new one."""
        states, number = self._book.states(self._site.clock.uptime_ms()), 0
        if call.request.number_from > 0:
            number = self._last_number = max(self._last_number + 1, call.request.number_from)
        return FaultsAnswer(body=FaultsThere(states, self._site.brokers(call.connection), number))

    def remove(self, call: Call) -> Answer:
        """Remove one rule, or all but those that stay."""
        number: int = call.request.number
        return FaultRemovedAnswer(self._remove(self._book.passing() if number == 0 else [number], "removed"))

    def release(self) -> None:
        """Let everything arrive now that a rule delays or slows, although the rules stay."""
        self._gate.release(None)

    def _why_not(self, rule: FaultRule) -> str:
        """Return why a rule can't apply to this server; empty if it can."""
        site = self._site
        if rule.action in actions.SWITCHES and rule.action not in site.switches:
            return f"{site.name} can't be {rule.action}"
        if actions.ACTIONS[rule.action].is_of_process:
            return (
                f"{rule.action} is only possible through the control endpoint of the program that started the process"
            )
        handlers = site.dispatcher.routes.handlers
        is_of_requests = rule.direction in (actions.REQUEST, actions.ANSWER) and rule.action not in actions.SWITCHES
        if rule.codes and is_of_requests and not any(code in handlers for code in rule.codes):
            return f"{site.name} doesn't handle {rule.code} requests"
        return ""

    def _expire(self, number: int) -> None:
        self._remove([number], "its lifetime is over")

    def _remove(self, numbers: list[int], why: str) -> int:
        """Remove rules and end their effects; return how many of them existed."""
        rules = [rule for rule in map(self._taken_out, numbers) if rule is not None]
        for rule in rules:
            if rule.action in self._site.switches and not self._book.has(rule.action):
                self._site.switches[rule.action](False)
            log.warning("fault_removed", server=self._site.name, number=rule.number, rule=in_words(rule), reason=why)
        # Only after the last of them is gone: none of them affects the responses to released requests.
        if rules:
            self._gate.release([rule.number for rule in rules])
        if not len(self._book):
            self._gate.unshut()
        return len(rules)

    def _taken_out(self, number: int) -> FaultRule | None:
        """Remove a rule from the book, and its timer; return None if it doesn't exist."""
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()
        return self._book.remove(number)

    def close(self) -> None:
        """Cancel the timers of all lifetimes, because the server stops."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
