"""Changes of a workload on the command line: `rebalance_interval_ms=5s`, `group_protection=off`, `members=5`.

A name is first searched in the table below, then in the settings of members (PushSettings and their ClientSettings),
then in those of brokers. It applies to all groups, all producers or all brokers of the workload.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, NamedTuple

from staticfire.broker.settings import BrokerSettings
from staticfire.client import ClientSettings, PushSettings
from staticfire.protocol.durations import parse_duration
from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import Unparsable, field_named, parse_value
from staticfire.simulation.workload.description import Brokers, Group, Nemesis, Producers, Topic, Workload
from staticfire.simulation.workload.loading import WorkloadMaker
from staticfire.simulation.workload.spelling import check_known

OFF = "off"
PROTECTION = "group_protection"
_NOT_AS_TEXT = ("client", "allocate_strategy")

Change = Callable[[Workload, Any], Workload]


class _Word(NamedTuple):
    """The meaning of a name: a field of a class, and the function that sets it in a workload."""

    owner: type
    field: str
    change: Change


def _of_topics(field: str) -> Change:
    return lambda all, value: replace(all, topics=[replace(one, **{field: value}) for one in all.topics])


def _of_groups(field: str) -> Change:
    return lambda all, value: replace(all, groups=[replace(one, **{field: value}) for one in all.groups])


def _of_producers(field: str) -> Change:
    return lambda all, value: replace(all, producers=[replace(one, **{field: value}) for one in all.producers])


def _of_brokers(workload: Workload, settings: Mapping[str, Any]) -> Workload:
    return replace(workload, brokers=replace(workload.brokers, settings={**workload.brokers.settings, **settings}))


def _of_members(field: str, is_client: bool) -> Change:
    def change(workload: Workload, value: Any) -> Workload:
        groups = []
        for group in workload.groups:
            settings = {field: value}
            if is_client:
                settings = {"client": replace(group.settings.get("client", ClientSettings()), **settings)}
            groups.append(replace(group, settings={**group.settings, **settings}))
        return replace(workload, groups=groups)

    return change


@cache
def _words() -> dict[str, _Word]:
    words = {
        "queues": _Word(Topic, "queues", _of_topics("queues")),
        **{name: _Word(Group, name, _of_groups(name)) for name in ("members", "fails", "poison", "retries_max")},
        "per_second": _Word(Producers, "per_second", _of_producers("per_second")),
        "brokers": _Word(Brokers, "count", lambda all, value: replace(all, brokers=replace(all.brokers, count=value))),
        "every_seconds": _Word(
            Nemesis, "every_seconds", lambda all, value: replace(all, nemesis=replace(all.nemesis, every_seconds=value))
        ),
    }
    for owner, is_client in ((PushSettings, False), (ClientSettings, True)):
        for each in fields(owner):
            words.setdefault(each.name, _Word(owner, each.name, _of_members(each.name, is_client)))
    for each in fields(BrokerSettings):
        words.setdefault(each.name, _Word(BrokerSettings, each.name, _of_broker_settings(each.name)))
    return {name: word for name, word in words.items() if name not in _NOT_AS_TEXT}


def _of_broker_settings(field: str) -> Change:
    return lambda workload, value: _of_brokers(workload, {field: value})


def varied(workload: Workload, changes: Mapping[str, str]) -> Workload:
    """Return the workload with these changes. Raises: UsageError (an unknown name, or an invalid value)."""
    for name, text in changes.items():
        check_known(name, [PROTECTION, *_words()], "value of a workload and not a setting")
        if name == PROTECTION:
            span_ms = 0 if text == OFF else _duration_ms(text)
            workload = _of_brokers(workload, {"stable_time_ms": span_ms, "grace_time_ms": span_ms})
            continue
        word = _words()[name]
        try:
            workload = word.change(workload, parse_value(text, word.owner, field_named(word.owner, word.field)))
        except Unparsable as wrong:
            raise UsageError(f"{name}={text}: it must be {wrong}") from None
        except UsageError as error:
            raise UsageError(f"{name}={text}: {error}") from None
    return workload


def _duration_ms(text: str) -> int:
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{PROTECTION}={text}: {OFF}, or {error}") from None


def varied_maker(make: WorkloadMaker, changes: Mapping[str, str]) -> WorkloadMaker:
    """Return a function that makes the workload of a seed with these changes."""
    return (lambda chance: varied(make(chance), changes)) if changes else make
