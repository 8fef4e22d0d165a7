"""A compiled condition on the properties of messages, for any number of messages. RocketMQ: SqlFilter.

wanted = compile_filter("price > 100 AND region IN ('eu', 'us')") wanted.matches(properties)
"""

import msgspec

from staticfire.protocol.sql92.closures import Evaluate, Incomparable
from staticfire.protocol.sql92.faults import FilterExpressionError
from staticfire.protocol.sql92.grammar import Parser
from staticfire.protocol.sql92.java_values import NotANumber

# The maximum length of a condition. Compiling takes one to two microseconds per character, and no other client is
# served meanwhile.
CHARACTERS_MAX = 32_768


class PropertyFilter(msgspec.Struct, frozen=True, eq=False):
    """Matches the messages for which the condition is true. If it is false or unknown, the message doesn't match."""

    text: str
    weight: int
    """The number of terms. Each takes about 0.3 us per message."""
    evaluate: Evaluate

    def matches(self, properties: bytes) -> bool:
        """Return whether a message with this property string matches."""
        try:
            return self.evaluate(b"\x02" + properties + b"\x02") is True
        except (NotANumber, Incomparable):
            return False


def compile_filter(text: str) -> PropertyFilter:
    """Compile a condition in RocketMQ's SQL92. Raises: FilterExpressionError."""
    if len(text) > CHARACTERS_MAX:
        raise FilterExpressionError(
            f"a condition of {len(text)} characters, more than {CHARACTERS_MAX}: use a shorter condition"
        )
    term = Parser(text).parse()
    return PropertyFilter(text, term.weight, term.evaluate)
