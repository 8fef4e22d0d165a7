"""A search for a text in the dead letters of a group. No broker can do it, so letters are read, a limited number.

The caller continues where a search ended: `skip` more letters than before are left out.
"""

from typing import NamedTuple

from staticfire.client.admin.dead_letter_queue import DeadLetterQueue
from staticfire.client.admin.dead_letters import DeadLetter

# How many letters one search reads, and how many of them at the same time.
SEARCHED_MAX, SEARCHED_TOGETHER = 1_000, 500


class LetterSearch(NamedTuple):
    """What a search has found, in the order in which the letters died."""

    letters: list[DeadLetter]
    searched: int
    """How many letters it has looked at."""
    total: int
    """The number of all dead letters of the group."""


async def search_letters(
    queue: DeadLetterQueue, text: str, limit: int, newest: bool = False, skip: int = 0
) -> LetterSearch:
    """Return the oldest letters with a text, or the newest. It ends after `limit` hits, or after SEARCHED_MAX letters.

    `skip`: leave out this many letters first. Raises: as DeadLetterQueue.
    """
    found: list[DeadLetter] = []
    wanted, looked, total = text.lower(), 0, 0
    while looked < SEARCHED_MAX and len(found) < limit:
        size = min(SEARCHED_TOGETHER, SEARCHED_MAX - looked)
        letters, total = await queue.part(size, newest, skip + looked)
        for one in reversed(letters) if newest else letters:
            looked += 1
            if wanted in searched_text(one):
                found.append(one)
                if len(found) == limit:
                    break
        if skip + looked >= total or not letters:
            break
    return LetterSearch(found[::-1] if newest else found, looked, total)


def searched_text(letter: DeadLetter) -> str:
    """Return the text of a letter in which a search looks."""
    message = letter.message
    words = [letter.id, letter.origin_topic or "", message.message_id, message.tags or "", *message.keys]
    return " ".join([*words, message.body.decode("utf-8", "replace")]).lower()
