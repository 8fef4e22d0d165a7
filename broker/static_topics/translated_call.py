"""A request with a broker's own numbers, whose response is translated before it is sent."""

from collections.abc import Callable
from typing import Any

from staticfire.protocol.command import Answer
from staticfire.runtime.dispatcher import Call


class TranslatedCall(Call, gc=False, kw_only=True):
    """A call that handlers treat like any other."""

    original: Call
    """The call as it was received."""
    translate: Callable[[Any], Answer]

    def answer(self, answer: Answer) -> None:
        """See `Call`."""
        self.original.answer(self.translate(answer))


def translated(call: Call, request: Any, translate: Callable[[Any], Answer]) -> TranslatedCall:
    """Return a call with a translated request instead of the received one."""
    return TranslatedCall(
        request, call.opaque, call.oneway, call.codec, call.connection, original=call, translate=translate
    )
