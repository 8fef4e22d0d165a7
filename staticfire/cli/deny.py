"""`staticfire deny`: what a user may not do."""

from typing import Any

import click

from staticfire.cli.allow import WantedPolicy, policy_flags, set_policy
from staticfire.protocol.documentation import page


@click.command(epilog=f"More about access: {page('access')}")
@policy_flags
def deny(**given: Any) -> None:
    """Deny USER some ACTIONS on a RESOURCE, from the next request on.

    It is needed only for exceptions: what no policy allows is denied anyway. A whole name counts more than a prefix,
    and a longer prefix more than a shorter one.

    \b
    Example:
        staticfire allow shop 'Topic:*' Pub
        staticfire deny shop Topic:audit Pub
    """
    set_policy("Deny", WantedPolicy(**given))
