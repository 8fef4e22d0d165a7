"""The messages of a receive as answers, many at once: each body is copied once. Pure."""

from collections.abc import Iterator, Sequence

from staticfire.proxy.services.popped import Popped
from staticfire.proxy.services.received_messages import MessagePacker
from staticfire.proxy.transport.calls import PackedAnswers

SHARE_BYTES = 64 * 1024
# A share that has reached it is sent: the messages behind it wait for the client's windows unpacked.


def packed_shares(messages: Sequence[Popped], packer: MessagePacker) -> Iterator[tuple[int, PackedAnswers]]:
    """Yield all messages in their order, share by share, each with how many it has."""
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
