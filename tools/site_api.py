"""An extension of griffe, which reads the code for the page docs/api.md of the site.

Blocking classes take over methods as `create_topic = waiting(RunningCluster.create_topic)`. Here such an attribute
becomes the method that it calls, with its signature and docstring.
"""

from typing import Any

import griffe

MAKERS = {"waiting", "awaiting"}


class TakenOverMethods(griffe.Extension):
    """Replaces such attributes by aliases of the methods."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Look at the attributes of a class."""
        for name, member in list(cls.members.items()):
            path = _method_path(member)
            if path is not None:
                cls.set_member(name, griffe.Alias(name, path, lineno=member.lineno, endlineno=member.endlineno))


def _method_path(member: griffe.Object | griffe.Alias) -> str | None:
    """Return the full path of the method that an attribute takes over, or None."""
    if not isinstance(member, griffe.Attribute) or not isinstance(member.value, griffe.ExprCall):
        return None
    call = member.value
    if str(call.function) not in MAKERS or not isinstance(call.arguments[0], griffe.ExprAttribute):
        return None
    return call.arguments[0].canonical_path
