"""Repeatable randomness: every user has its own source, made from the seed and the user's name.

So a source doesn't depend on how often others are used, on the order in which objects are created, or on
PYTHONHASHSEED.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager


def source_of_chance(seed: int, *names: object) -> random.Random:
    """Return the source of randomness for these names."""
    return random.Random(number_from(seed, *names))


@contextmanager
def shared_source_from(seed: int) -> Iterator[None]:
    """Let the module `random` begin from the seed in the `with` block: users' code calls it. Nothing of ours does."""
    before = random.getstate()
    random.seed(number_from(seed, "the module random"))  # noqa: TID251 (it isn't a source for us, but for users)
    try:
        yield
    finally:
        random.setstate(before)


def number_from(seed: int, *names: object) -> int:
    """Return 64 bits made from the seed and the names."""
    words = "\0".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big")
