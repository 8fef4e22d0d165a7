"""Encodes the messages of a receive, many at once, so that each body is copied only once. Pure."""

from collections.abc import Iterator, Sequence

from staticfire.proxy.services.popped import Popped
from staticfire.proxy.services.received_messages import MessagePacker
from staticfire.proxy.transport.calls import PackedAnswers

# A share of this size is sent. The messages after it aren't encoded before the client's windows permit it.
SHARE_BYTES = 64 * 1024


def packed_shares(messages: Sequence[Popped], packer: MessagePacker) -> Iterator[tuple[int, PackedAnswers]]:
    """Yield all messages in order, in shares: the number of messages and their encoded form."""
    pieces: list[bytes] = []
    count, size = 0, 0
    for record, receipt, reconsume_times in messages:
        before, body = packer.before_body(record, reconsume_times + 1, str(receipt)), record.body
        pieces += (before, body)
        size += len(before) + len(body)
        count += 1
        if size >= SHARE_BYTES:
            yield count, PackedAnswers(b"".join(pieces))
            pieces.clear()
            count = size = 0
    if count:
        yield count, PackedAnswers(b"".join(pieces))
