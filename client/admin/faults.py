"""Injected faults in a cluster: sends rules to its servers, and combines what they report.

Only staticfire's servers accept rules. The addresses of the brokers come from the nameserver, together with its rules;
no rule can block that.
"""

import asyncio
from collections.abc import Container, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from staticfire.client.cluster.nameservers import IS_ONE_RUNNING
from staticfire.faults import actions
from staticfire.faults.matching import is_address, may_touch
from staticfire.faults.parsing import WantedFault
from staticfire.faults.showing import in_words
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import BrokerAnswer, NetworkError, UsageError, broker_answer
from staticfire.protocol.requests.faults import (
    AddFault,
    FaultAddedAnswer,
    FaultRemovedAnswer,
    FaultRule,
    FaultsAnswer,
    FaultState,
    FaultsThere,
    GetFaults,
    RemoveFault,
)
from staticfire.runtime.addresses import format_address, parse_addresses
from staticfire.runtime.pool import ConnectionPool

TIMEOUT_MS = 3_000
NOT_OURS = "fault rules are staticfire's own, and this server isn't staticfire's"
HINTS = {
    "topic": "no broker has topic {topic} yet: the rule waits for it",
    "queue": "no broker has a queue {queue} of it yet: the rule waits for it",
    "group": "no broker knows group {group} yet: the rule waits for it",
    "client": "no client {client} is connected yet: the rule waits for it",
    "until": "message time is already past the rule's end: the rule hits nothing",
}


class FaultView(msgspec.Struct, rename="camel"):
    """A fault rule of a cluster."""

    number: int
    words: str
    hits: dict[str, int]
    """The number of hits, by server name."""
    left_ms: int = -1
    """The rest of its lifetime; -1 if it has no end."""
    notes: list[str] = []
    """Remarks about a new rule that a user should read."""

    @property
    def hit(self) -> int:
        """The number of its hits on all servers."""
        return sum(self.hits.values())

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


class FaultViews(list[FaultView]):
    """The rules of a cluster, oldest first."""

    def __init__(self, views: Iterable[FaultView], silent: Mapping[str, str]) -> None:
        super().__init__(views)
        self.silent = dict(silent)
        """Servers that don't respond, and why."""


class FaultAdmin:
    """The fault rules of one cluster's servers."""

    def __init__(
        self,
        pool: ConnectionPool,
        namesrv: str,
        brokers: Mapping[str, str] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """`brokers`: addresses by name of brokers that are known already. `timeout_ms`: of each request.

        Raises: UsageError (not an address).
        """
        self._pool = pool
        self._brokers = dict(brokers or {})
        self._timeout_ms = timeout_ms
        self._nameservers = [format_address(*address) for address in parse_addresses(namesrv)]

    async def add(self, wanted: WantedFault, least_number: int = 1) -> FaultView:
        """Send a rule to the servers that it can apply to. `least_number`: smaller numbers are used elsewhere.

        Raises: UsageError (no such server, or none that the rule can apply to), BrokerAnswer, NetworkError.
        """
        servers, states, silent = await self._look()
        number = await self._take_number(max([least_number, *(state.rule.number + 1 for state in states_of(states))]))
        rules = self._placed(wanted, servers)
        refusals: dict[str, str] = {}
        hits: dict[str, int] = {}
        unseen: list[set[str]] = []
        for name, rule in rules.items():
            if name in silent:
                refusals[name] = silent[name]
                continue
            answer = await self._ask(servers[name], AddFault(body=numbered(rule, number)))
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                refusals[name] = answer.remark or NOT_OURS
            elif answer.code == ResponseCode.INVALID_PARAMETER:
                raise UsageError(answer.remark or "this rule isn't accepted")
            elif answer.code != SUCCESS or not isinstance(answer, FaultAddedAnswer):
                raise broker_answer(answer.code, answer.remark, f"add fault at {name}")
            else:
                hits[name] = 0
                unseen.append(set(answer.body.unseen) if answer.body is not None else set())
        if not hits:
            raise UsageError("; ".join(refusals.values()))
        rule = next(rule for name, rule in rules.items() if name in hits)
        notes = self._notes(rule, unseen)
        notes += [
            f"{one} is treated as a client; {_meant(one, servers)}"
            for one in _strangers(wanted, servers)
            if get_close_matches(one, servers)
        ]
        notes += [f"{name} doesn't have it: {words}" for name, words in refusals.items() if name in silent]
        words = in_words(_combined(rules[name] for name in hits))
        return FaultView(number, words, hits, rule.lifetime_ms or -1, notes)

    async def preview(self, wanted: WantedFault) -> FaultView:
        """Return a rule as `add` would add it, without a number, and where. Raises: as `add`.

        A server that doesn't handle its requests will refuse it.
        """
        servers, _, silent = await self._look()
        rules = self._placed(wanted, servers)
        there = [name for name in rules if name not in silent]
        if not there:
            raise UsageError("; ".join(silent[name] for name in rules))
        rule = rules[there[0]]
        words = in_words(_combined(rules[name] for name in there))
        return FaultView(0, words, dict.fromkeys(there, 0), rule.lifetime_ms or -1)

    async def views(self) -> FaultViews:
        """Return all rules, with their hits and the servers that don't respond."""
        _, states, silent = await self._look()
        by_number: dict[int, dict[str, FaultState]] = {}
        for name, there in states.items():
            for state in there:
                by_number.setdefault(state.rule.number, {})[name] = state
        return FaultViews((_view(by_number[number]) for number in sorted(by_number)), silent)

    async def remove(self, number: int) -> dict[str, int]:
        """Remove a rule, or all with 0. Return how many each server had. Raises: NetworkError (no server responds)."""
        servers, _, silent = await self._look()
        return await self._remove(number, servers, silent)

    async def clear(self) -> int:
        """Remove all rules but those that stay; return how many. Raises: as `remove`."""
        servers, states, silent = await self._look()
        await self._remove(0, servers, silent)
        return len({state.rule.number for state in states_of(states) if not state.rule.stays})

    async def _remove(self, number: int, servers: Mapping[str, str], silent: Container[str]) -> dict[str, int]:
        removed = {}
        for name, address in servers.items():
            if name not in silent:
                answer = await self._ask(address, RemoveFault(number))
                removed[name] = answer.removed if isinstance(answer, FaultRemovedAnswer) else 0
        return removed

    async def take_number(self, least_number: int) -> int:
        """Return a number for a rule that is kept elsewhere. Raises: NetworkError, BrokerAnswer."""
        _, states, _ = await self._look()
        return await self._take_number(max([least_number, *(state.rule.number + 1 for state in states_of(states))]))

    # -- servers -----------------------------------------------------------------------------------------------------

    async def _look(self) -> tuple[dict[str, str], dict[str, list[FaultState]], dict[str, str]]:
        """Return the addresses of servers, their rules, and why some don't respond; all by server name.

        Raises: NetworkError (no nameserver responds), BrokerAnswer (it isn't staticfire's).
        """
        servers: dict[str, str] = {}
        there = await asyncio.gather(*(self._there(address) for address in self._nameservers))
        states: dict[str, list[FaultState]] = {}
        silent: dict[str, str] = {}
        for number, (address, found) in enumerate(zip(self._nameservers, there, strict=True)):
            name = actions.NAMESERVER if number == 0 else f"{actions.NAMESERVER}-{number + 1}"
            servers[name] = address
            if isinstance(found, NetworkError):
                silent[name] = str(found)
            elif isinstance(found, BrokerAnswer):
                raise found
            else:
                states[name] = found.states
                servers |= found.brokers
        if not states and not self._brokers:
            raise NetworkError(f"no nameserver responds ({'; '.join(silent.values())}): {IS_ONE_RUNNING}")
        servers |= self._brokers
        brokers = [name for name in servers if not name.startswith(actions.NAMESERVER)]
        for name, found in zip(
            brokers, await asyncio.gather(*(self._there(servers[name]) for name in brokers)), strict=True
        ):
            if isinstance(found, FaultsThere):
                states[name] = found.states
            else:
                silent[name] = str(found)
        return servers, states, silent

    async def _take_number(self, least_number: int) -> int:
        """Return a number that no other rule gets. If no nameserver responds, return the requested one."""
        for address in self._nameservers:
            try:
                answer = await self._ask(address, GetFaults(least_number))
            except NetworkError:
                continue
            if isinstance(answer, FaultsAnswer) and answer.body is not None:
                return int(answer.body.number)
        return least_number

    async def _there(self, address: str) -> FaultsThere | NetworkError | BrokerAnswer:
        try:
            answer = await self._ask(address, GetFaults())
        except NetworkError as error:
            return error
        if answer.code != SUCCESS or not isinstance(answer, FaultsAnswer) or answer.body is None:
            is_refusal = answer.code not in (SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            words = answer.remark if is_refusal and answer.remark else NOT_OURS
            return BrokerAnswer(answer.code, f"{words} [{address}]")
        there: FaultsThere = answer.body
        return there

    async def _ask(self, address: str, request: Request) -> Answer:
        return await self._pool.ask(address, request, self._timeout_ms)

    # -- the rule of each server --------------------------------------------------------------------------------------

    def _placed(self, wanted: WantedFault, servers: Mapping[str, str]) -> dict[str, FaultRule]:
        """Return the rule of each server. Raises: UsageError."""
        unknown = [name for name in wanted.places if name not in servers]
        if unknown:
            raise UsageError(f"there is no {unknown[0]} in this cluster; it has {', '.join(servers)}")
        if wanted.rule.action == actions.PARTITION:
            return self._partition(wanted, servers)
        names = list(wanted.places or servers)
        if wanted.rule.action in actions.SWITCHES and not wanted.places:
            names = [name for name in servers if not name.startswith(actions.NAMESERVER)]
        return dict.fromkeys(names, wanted.rule)

    def _partition(self, wanted: WantedFault, servers: Mapping[str, str]) -> dict[str, FaultRule]:
        """Return for each server a rule with the parties of the other side that send it requests.
        Raises: UsageError.
        """
        rules: dict[str, FaultRule] = {}
        for side, other in (wanted.sides, wanted.sides[::-1]):
            for name in side:
                senders = [one for one in other if _hears(name, one, servers)] if name in servers else []
                if senders:
                    rules[name] = msgspec.structs.replace(wanted.rule, parties=senders)
        unknown = [
            one for one in _strangers(wanted, servers) if not any(one in rule.parties for rule in rules.values())
        ]
        if rules and unknown:
            raise UsageError(
                f"there is no server {unknown[0]}, and the servers of the other side can't recognise it as a client: a "
                f"nameserver knows clients only by their addresses; {_meant(unknown[0], servers)}"
            )
        if not rules:
            sides = " and ".join(", ".join(side) for side in wanted.sides)
            raise UsageError(
                f"{sides} never connect to each other: clients connect to servers, brokers connect to nameservers, and "
                f"a nameserver knows clients only by their addresses; the servers are {', '.join(servers)}"
            )
        return rules

    def _notes(self, rule: FaultRule, unseen: list[set[str]]) -> list[str]:
        """Return remarks about names in the rule that no server has seen."""
        missing = set.intersection(*unseen) if unseen else set()
        client = rule.client or " or ".join(rule.parties)
        return [
            words.format(topic=rule.topic, queue=rule.queue_id, group=rule.group, client=client)
            for kind, words in HINTS.items()
            if kind in missing and not (kind == "queue" and "topic" in missing)
        ]


def _combined(rules: Iterable[FaultRule]) -> FaultRule:
    """Return the rule that describes those of several servers: in a partition, each is cut off from other parties."""
    found = list(rules)
    return msgspec.structs.replace(found[0], parties=sorted({party for rule in found for party in rule.parties}))


def _view(states: Mapping[str, FaultState]) -> FaultView:
    """Return one rule as it is shown, from its states by server."""
    first = next(iter(states.values()))
    words = in_words(_combined(state.rule for state in states.values()))
    return FaultView(first.rule.number, words, {name: state.hits for name, state in states.items()}, first.left_ms)


def _hears(server: str, other: str, servers: Mapping[str, str]) -> bool:
    """Return whether a server gets requests from another party: a broker, an address, or a client id."""
    is_nameserver = server.startswith(actions.NAMESERVER)
    if other in servers:
        return is_nameserver and not other.startswith(actions.NAMESERVER)
    return not is_nameserver or ":" in other or _is_host(other)


def _strangers(wanted: WantedFault, servers: Mapping[str, str]) -> list[str]:
    """Return the members of a partition's sides that aren't servers."""
    return [one for side in wanted.sides for one in side if one not in servers]


def _meant(name: str, servers: Mapping[str, str]) -> str:
    """Return a suggestion: the server with a similar name, and all servers."""
    close = get_close_matches(name, servers, 1)
    words = f"the servers are {', '.join(servers)}"
    return f"did you mean {close[0]}? {words}" if close else words


def _is_host(text: str) -> bool:
    """Return whether a text is an IP address."""
    return is_address(f"{text}:1", text) and text.replace(".", "").isdecimal()


def warnings_of_rules(
    states: Mapping[str, list[FaultState]], group: str, topics: Container[str], clients: Iterable[str]
) -> list[str]:
    """Return descriptions of the rules that may affect a group, with their hits. Rules that are used up are left out.

    `states`: by server. `topics`, `clients`: what it consumes, and its members.
    """
    found: dict[int, tuple[FaultRule, list[str]]] = {}
    ids = list(clients)
    for name, there in states.items():
        for state in there:
            rule = state.rule
            if may_touch(rule, group, topics, ids) and not (rule.times and state.hits >= rule.times):
                found.setdefault(rule.number, (rule, []))[1].append(f"{name} {state.hits:,}")
    return [
        f"fault rule {number} is active: {in_words(rule)} (hits: {', '.join(hits)})"
        for number, (rule, hits) in sorted(found.items())
    ]


def states_of(states: Mapping[str, list[FaultState]]) -> list[FaultState]:
    """Return the rules of all servers."""
    return [state for there in states.values() for state in there]


def numbered(rule: FaultRule, number: int) -> FaultRule:
    """Return a rule with this number."""
    return msgspec.structs.replace(rule, number=number)
