"""Make a rule from a user's input. The words are the same for the command line, HTTP and Python.

    parse_fault({"code": "SEND_MESSAGE", "topic": "orders", "answer": "SYSTEM_BUSY", "times": 3})

`parse_fault` normalizes the words, finds the single action among them, and refuses words that don't go with it. From
the other words, it reads which requests the rule is about (`_matching`), the direction, the action's parameters
(`_details`), the lifetime, and how often it hits (`_chance`). Then `checked` verifies the whole rule. A server calls it
again for each rule that it receives.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Any, NamedTuple

from staticfire.faults import actions
from staticfire.faults.actions import ACTIONS, DIRECTIONS, Action
from staticfire.faults.codes import (
    OF_SERVERS,
    SENT_BY_SERVERS,
    is_error_code,
    language_code,
    request_codes,
    response_code,
)
from staticfire.faults.matching import names
from staticfire.protocol.codes import LanguageCode, ResponseCode
from staticfire.protocol.durations import DURATION_FORMS, DURATION_MS_MAX, ms_of, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.requests.faults import FaultRule
from staticfire.runtime.addresses import format_address, parse_address, plain_host

READ_ONLY_REMARK = "sending messages to this broker is forbidden"
# In bytes per second.
BANDWIDTH_MAX = 1 << 40
SEED_MAX = 1 << 31


class WantedFault(NamedTuple):
    """A rule, and the servers that it is for."""

    rule: FaultRule
    places: tuple[str, ...] = ()
    """Names of brokers, or the nameserver. Empty: every server where the rule can have an effect."""
    sides: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The two sides of a partition: neither receives anything from the other."""


_ACTION_WORDS = {
    "delay": actions.DELAY,
    "drop": actions.DROP,
    "answer": actions.REFUSE,
    "close": actions.CLOSE,
    "corrupt": actions.CORRUPT,
    "bandwidth": actions.BANDWIDTH,
    "duplicate": actions.DUPLICATE,
    "skew": actions.SKEW,
    "partition": actions.PARTITION,
    "read_only": actions.READ_ONLY,
    "disk_full": actions.DISK_FULL,
    "freeze": actions.FREEZE,
    "kill": actions.KILL,
}
_MATCH = ("code", "client", "group", "topic", "queue", "address", "language", "direction")
_HOW = ("jitter", "remark")
_CHANCE = ("probability", "seed", "after", "times", "from", "until")
_STAYS = "stays"
WORDS = ("broker", *_MATCH, *_ACTION_WORDS, *_HOW, *_CHANCE, "lifetime", _STAYS)
"""All words that a user can write."""


def parse_fault(written: Mapping[str, object]) -> WantedFault:
    """Return the rule for the given words. None, False and "" count as not given. Raises: UsageError."""
    words = {_word(name): value for name, value in written.items() if _is_given(value)}
    named = [word for word in _ACTION_WORDS if word in words]
    if len(named) != 1:
        there = ", ".join(word.replace("_", "-") for word in _ACTION_WORDS)
        problem = f"{named[0]} and {named[1]} can't be combined" if named else "the rule has no action"
        raise UsageError(f"a rule must have exactly one action, {problem}; the actions are {there}")
    name, value = _ACTION_WORDS[named[0]], words.pop(named[0])
    action = ACTIONS[name]
    _refuse_out_of_place(named[0], action, words)
    fields: dict[str, Any] = {"action": name, **_matching(words), **_chance(words)}
    fields["direction"] = _direction(action, value, words, fields)
    fields |= _details(name, value, words)
    fields |= _lifetime(name, value, words)
    if _STAYS in words:
        fields[_STAYS] = words[_STAYS] in (True, "true")
    places = _names(words["broker"], "broker") if "broker" in words else ()
    sides = _sides(value) if name == actions.PARTITION else ((), ())
    if action.is_of_process and not places:
        raise UsageError(f"{named[0]} needs a server: --broker broker-a, or --broker {actions.NAMESERVER}")
    return WantedFault(checked(FaultRule(**fields)), places, sides)


def checked(rule: FaultRule) -> FaultRule:
    """Check that a rule makes sense, and return it. Raises: UsageError."""
    action = ACTIONS.get(rule.action)
    if action is None:
        raise UsageError(f"unknown action {rule.action!r}; the actions are {', '.join(ACTIONS)}")
    if action.directions and rule.direction not in action.directions:
        raise UsageError(f"{rule.action} goes with {' or '.join(action.directions)}, not with {rule.direction!r}")
    if not (math.isfinite(rule.probability) and 0 < rule.probability <= 1):
        raise UsageError(f"probability={rule.probability}: it must be a number above 0, up to 1")
    numbers = {
        "after": rule.after, "times": rule.times, "lifetime": rule.lifetime_ms, "delay": rule.delay_ms,
        "jitter": rule.jitter_ms, "from": rule.from_ms, "until": rule.until_ms,
    }  # fmt: skip
    lowest = {"until": -1}  # -1: the rule has no end.
    wrong = next((name for name, number in numbers.items() if number < lowest.get(name, 0)), None)
    if wrong is not None:
        raise UsageError(f"{wrong}={numbers[wrong]}: it must not be negative")
    if rule.jitter_ms > rule.delay_ms:
        raise UsageError(
            f"a jitter of {rule.jitter_ms} ms around a delay of {rule.delay_ms} ms can become negative; "
            "use a smaller jitter"
        )
    if rule.action == actions.BANDWIDTH and not 0 < rule.bytes_per_second <= BANDWIDTH_MAX:
        raise UsageError(
            f"bandwidth={rule.bytes_per_second}: it must be a number of bytes per second, up to {BANDWIDTH_MAX}"
        )
    if rule.language >= 0 and rule.language not in frozenset(LanguageCode):
        raise UsageError(f"unknown language {rule.language}")
    if max(rule.delay_ms, abs(rule.skew_ms), rule.lifetime_ms) > DURATION_MS_MAX:
        raise UsageError("a duration of more than a hundred years: check its unit")
    if rule.until_ms == 0:
        raise UsageError("until is not after 1970: the rule would never hit")
    if 0 < rule.until_ms <= rule.from_ms:
        raise UsageError("until must be after from, else the rule would never hit")
    if rule.action == actions.REFUSE and not is_error_code(rule.answer_code):
        raise UsageError(f"code {rule.answer_code} is not an error code")
    _refuse_matching_nothing(rule)
    return rule


def _refuse_matching_nothing(rule: FaultRule) -> None:
    """Refuse a rule that can't match any request on any cluster. Raises: UsageError."""
    if rule.address:
        _address(rule.address)
    if not rule.codes:
        return
    what = rule.code or ", ".join(map(str, rule.codes))
    if rule.direction == actions.SERVER and SENT_BY_SERVERS.isdisjoint(rule.codes):
        there = ", ".join(sorted(code.name for code in SENT_BY_SERVERS))
        raise UsageError(f"servers don't send {what}; they send {there}")
    given = {"topic": rule.topic != "", "group": rule.group != "", "queue": rule.queue_id >= 0}
    for word, is_given in given.items():
        if is_given and not any(names(code, word) for code in rule.codes):
            raise UsageError(f"{what} has no {word}, so the rule would never hit; leave {word} out")


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ""


def _refuse_out_of_place(action_word: str, action: Action, words: Mapping[str, object]) -> None:
    """Refuse words that have no meaning with this action. Raises: UsageError."""
    name = _ACTION_WORDS[action_word]
    wrong = [word for word in _CHANCE if word in words and not action.is_chancy]
    wrong += [word for word in _MATCH if word in words and not action.is_chancy]
    wrong += ["jitter"] if "jitter" in words and name != actions.DELAY else []
    wrong += ["remark"] if "remark" in words and name != actions.REFUSE else []
    wrong += ["broker"] if "broker" in words and name == actions.PARTITION else []
    if wrong:
        raise UsageError(f"{wrong[0]} can't be combined with {action_word.replace('_', '-')}")


# -- the matching requests -------------------------------------------------------------------------------------------


def _matching(words: Mapping[str, object]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        word: _text(word, words[word]) for word in ("client", "group", "topic", "address") if word in words
    }
    if "address" in fields:
        fields["address"] = _address(fields["address"])
    if "code" in words:
        code = _text_or_number("code", words["code"])
        fields |= {"code": code, "codes": request_codes(code)}
    if "queue" in words:
        fields["queue_id"] = _whole("queue", words["queue"], (1 << 31) - 1)
    if "language" in words:
        fields["language"] = language_code(_text_or_number("language", words["language"]))
    return fields


def _direction(action: Action, value: object, words: Mapping[str, object], fields: Mapping[str, Any]) -> str:
    """Return the direction of the rule: the given or the default one. Raises: UsageError."""
    if not action.directions:
        return actions.REQUEST
    given = {str(one) for one in (words.get("direction"), value) if one in DIRECTIONS}
    if "direction" in words and words["direction"] not in DIRECTIONS:
        raise UsageError(f"direction={words['direction']}: it must be one of {', '.join(DIRECTIONS)}")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(sorted(given))} are different directions; a rule has only one")
    if given:
        return given.pop()
    codes = fields.get("codes", [])
    if codes and OF_SERVERS.issuperset(codes) and actions.SERVER in action.directions:
        return actions.SERVER
    return action.directions[0]


def _sides(value: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the members of both sides of a partition. Raises: UsageError."""
    one, _, other = _text("partition", value).partition("/")
    if not one.strip(" ,") or not other.strip(" ,"):
        raise UsageError(
            f"partition={value}: write two sides with a slash between them, like broker-a,billing-2/nameserver"
        )
    sides = _names(one, "partition"), _names(other, "partition")
    both = sorted(set(sides[0]) & set(sides[1]))
    if both:
        raise UsageError(f"partition={value}: {both[0]} is on both sides")
    return sides


def _names(value: object, what: str) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value
    found: tuple[str, ...] = ()
    if isinstance(given, list | tuple | set | frozenset) and all(isinstance(name, str) for name in given):
        found = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not found:
        raise UsageError(f"{what}={value}: write names, separated by commas")
    return found


# -- parameters and frequency ----------------------------------------------------------------------------------------


def _details(name: str, value: object, words: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters of an action. Raises: UsageError."""
    if name == actions.DELAY:
        return {"delay_ms": _ms("delay", value), "jitter_ms": _ms("jitter", words.get("jitter", "0s"))}
    if name == actions.REFUSE:
        code = response_code(_text_or_number("answer", value))
        return {"answer_code": code, "remark": _text("remark", words.get("remark", ""))}
    if name == actions.BANDWIDTH:
        return {"bytes_per_second": _bytes("bandwidth", value)}
    if name == actions.SKEW:
        text = str(value).strip() if isinstance(value, str) else value
        is_back = isinstance(text, str) and text.startswith("-")
        ms = _ms("skew", text[1:] if is_back and isinstance(text, str) else text)
        return {"skew_ms": -ms if is_back else ms}
    if name == actions.READ_ONLY:
        codes = [*request_codes("SEND_MESSAGE"), *request_codes("SEND_REPLY_MESSAGE")]
        return {"codes": codes, "answer_code": int(ResponseCode.NO_PERMISSION), "remark": READ_ONLY_REMARK}
    takes_words = (actions.PARTITION, actions.FREEZE, actions.KILL)
    if name not in takes_words and value not in (True, "true", *DIRECTIONS):
        raise UsageError(f"{name}={value}: use one of {', '.join(DIRECTIONS)}, or no value")
    return {}


def _lifetime(name: str, value: object, words: Mapping[str, object]) -> dict[str, Any]:
    """Return the lifetime of a rule; for `freeze` and `kill`, it may be the action's value. Raises: UsageError."""
    given = words.get("lifetime")
    if name in (actions.FREEZE, actions.KILL) and value not in (True, "true"):
        if given is not None:
            raise UsageError(f"{name}={value} already contains its duration: leave lifetime out")
        given = value
    if given is None:
        return {}
    word = "lifetime" if given is not value else name
    lifetime_ms = _ms(word, given)
    if not lifetime_ms:
        raise UsageError(f"{word}={given}: the time must be above 0; leave it out to keep the rule until it is removed")
    return {"lifetime_ms": lifetime_ms}


def _chance(words: Mapping[str, object]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "probability" in words:
        try:
            fields["probability"] = float(str(words["probability"]))
        except ValueError:
            raise UsageError(f"probability={words['probability']}: it must be a number above 0, up to 1") from None
    if "seed" in words:
        fields["seed"] = _whole("seed", words["seed"], SEED_MAX)
    if "after" in words:
        fields["after"] = _whole("after", words["after"], INT64_MAX)
    if "times" in words:
        fields["times"] = _whole("times", words["times"], INT64_MAX, least=1)
    for word in ("from", "until"):
        if word in words:
            fields[f"{word}_ms"] = _moment_ms(word, words[word])
    return fields


# -- values ----------------------------------------------------------------------------------------------------------


def _word(name: str) -> str:
    """Return the canonical form of a word: `read-only`, `readOnly`, `from_` are accepted. Raises: UsageError."""
    word = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower().replace("-", "_").rstrip("_")
    if word not in WORDS:
        meant = get_close_matches(word, WORDS, 1)
        advice = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(WORDS)}"
        raise UsageError(f"{name} is unknown; {advice}")
    return word


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name}={value}: it must be text")
    return value


def _text_or_number(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{name}={value}: it must be text or a number")
    return str(int(value)) if isinstance(value, int) else value


def _address(text: str) -> str:
    """Return an IP address, or one with a port, as connections show it. Raises: UsageError."""
    try:
        try:
            return str(ip_address(plain_host(text.removeprefix("[").removesuffix("]"))))
        except ValueError:
            host, port = parse_address(text)
            return format_address(str(ip_address(plain_host(host))), port)
    except (UsageError, ValueError):
        words = "write an IP address, alone or with a port, like 127.0.0.1 or 127.0.0.1:4711"
        raise UsageError(f"address={text}: {words}; host names aren't supported") from None


def _ms(name: str, value: object) -> int:
    if isinstance(value, timedelta) and value >= timedelta():
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
    raise UsageError(f"{name}={value!r}: write a duration, like {DURATION_FORMS}")


def _moment_ms(name: str, value: object) -> int:
    if isinstance(value, datetime):
        return ms_of(value)
    try:
        return parse_moment(str(value))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _whole(name: str, value: object, most: int, least: int = 0) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isdecimal() and text.isascii()) or not least <= int(text) <= most:
        raise UsageError(f"{name}={value}: it must be a whole number from {least} to {most}")
    return int(text)


def _bytes(name: str, value: object) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([kKmM]?)[bB]?(?:/s)?", str(value))
    if found is None:
        raise UsageError(f"{name}={value}: write bytes per second, like 500, 10k or 1m")
    return int(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()]
