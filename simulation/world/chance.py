"""Repeatable randomness: every user has its own source, made from the seed and the user's name.

So a source doesn't depend on how often others are used, on the order in which objects are created, or on
PYTHONHASHSEED.
"""

import hashlib
import random


def source_of_chance(seed: int, *names: object) -> random.Random:
    """Return the source of randomness for these names."""
    return random.Random(number_from(seed, *names))


def number_from(seed: int, *names: object) -> int:
    """Return 64 bits made from the seed and the names."""
    words = "\0".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big")
