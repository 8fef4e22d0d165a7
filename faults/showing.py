"""A rule as one line of text: `SEND_MESSAGE of topic orders: respond with SYSTEM_BUSY, 3 times`."""

from staticfire.faults import actions
from staticfire.protocol.codes import LanguageCode, name_of_response
from staticfire.protocol.durations import format_duration, format_moment
from staticfire.protocol.requests.faults import FaultRule


def in_words(rule: FaultRule) -> str:
    """Return which requests a rule matches, what it does, and how often."""
    return f"{_matching(rule)}: {', '.join([_what(rule), *_how_often(rule)])}"


def _matching(rule: FaultRule) -> str:
    if rule.action == actions.PARTITION:
        return f"cut off from {', '.join(rule.parties)}"
    if not actions.ACTIONS[rule.action].directions:
        return "the server"
    what = rule.code.upper() or "every request"
    whom = [
        f"{name} {value}"
        for name, value in (
            ("of client", rule.client), ("of group", rule.group), ("of topic", rule.topic), ("from", rule.address),
        )
        if value
    ]  # fmt: skip
    if rule.queue_id >= 0:
        whom.append(f"of queue {rule.queue_id}")
    if rule.language >= 0:
        whom.append(f"in {LanguageCode(rule.language).name}")
    return " ".join([what, *whom])


def _what(rule: FaultRule) -> str:
    of = {actions.ANSWER: " its response", actions.SERVER: " requests that the server sends"}.get(rule.direction, "")
    if rule.action == actions.DELAY:
        jitter = f" ± {format_duration(rule.jitter_ms)}" if rule.jitter_ms else ""
        return f"delay{of} by {format_duration(rule.delay_ms)}{jitter}"
    if rule.action == actions.REFUSE:
        done = " after it is carried out" if rule.direction == actions.ANSWER else ""
        return f"respond with {name_of_response(rule.answer_code)}{done}"
    if rule.action == actions.BANDWIDTH:
        return f"{rule.bytes_per_second:,} bytes per second for{of}"
    if rule.action == actions.SKEW:
        return f"clock {format_duration(abs(rule.skew_ms))} {'slow' if rule.skew_ms < 0 else 'fast'}"
    if rule.action == actions.CLOSE:
        return "close the connection" + (" in place of" + of if of else "")
    return rule.action + of


def _how_often(rule: FaultRule) -> list[str]:
    words = []
    if rule.probability < 1:
        words.append(f"with probability {rule.probability:g}")
    if rule.after:
        words.append(f"after {rule.after:,} of them")
    if rule.times:
        words.append("once" if rule.times == 1 else f"{rule.times:,} times")
    if rule.from_ms:
        words.append(f"from {format_moment(rule.from_ms)}")
    if rule.until_ms >= 0:
        words.append(f"until {format_moment(rule.until_ms)}")
    if rule.lifetime_ms:
        words.append(f"for {format_duration(rule.lifetime_ms)}")
    if rule.stays:
        words.append("until it is removed by its number")
    return words
