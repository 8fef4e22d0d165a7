"""A request in a broker's own numbers, whose answer is translated before it leaves."""

from collections.abc import Callable
from typing import Any

from staticfire.protocol.command import Answer
from staticfire.runtime.dispatcher import Call


class TranslatedCall(Call, gc=False, kw_only=True):
    """Handlers treat it like any call."""

    original: Call
    """As it came."""
    translate: Callable[[Any], Answer]

    def answer(self, answer: Answer) -> None:
        """See `Call`."""
        self.original.answer(self.translate(answer))


def translated(call: Call, request: Any, translate: Callable[[Any], Answer]) -> TranslatedCall:
    """Return a call with another request in the place of the one that came."""
    return TranslatedCall(
        request, call.opaque, call.oneway, call.codec, call.connection, original=call, translate=translate
    )
