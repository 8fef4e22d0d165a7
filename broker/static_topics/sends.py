"""Find where messages for a logical queue are stored. RocketMQ: TopicQueueMappingManager.rewriteRequestForStaticTopic.

Behaviour
- Only the broker that leads a logical queue accepts messages for it. For a send without a queue id it chooses a logical
  queue that it leads.
- While the logical offset of the last stretch isn't decided, messages are accepted, and the response has the offset -1.
- The offset of a half message is not translated: the request that ends the transaction must contain the same number.
"""

from random import Random
from typing import Any

import msgspec

from staticfire.broker.sends.not_built import is_half
from staticfire.broker.static_topics.mapping import led_queues, logical
from staticfire.broker.static_topics.translated_call import TranslatedCall, translated
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.send import SendAnswer, SendMessage
from staticfire.protocol.requests.static_topics import MappingDetail, MappingItem
from staticfire.runtime.dispatcher import Call


def not_led(detail: MappingDetail, queue_id: int) -> BrokerAnswer:
    """Return the refusal of a request to a broker that doesn't lead the logical queue."""
    items = detail.hosted_queues.get(queue_id)
    hint = f"broker {items[-1].bname} leads it" if items else "see its route for the broker that leads it"
    words = f"{detail.topic}-{queue_id} is not led by broker {detail.bname}: {hint}"
    return BrokerAnswer(ResponseCode.NOT_LEADER_FOR_QUEUE, words)


def items_led(detail: MappingDetail, queue_id: int) -> list[MappingItem]:
    """Return all stretches of a logical queue that this broker leads. Raises: BrokerAnswer (it doesn't lead it)."""
    items = detail.hosted_queues.get(queue_id)
    if not items or items[-1].bname != detail.bname:
        raise not_led(detail, queue_id)
    return items


def placed(call: Call, detail: MappingDetail, random: Random) -> TranslatedCall:
    """Return a send with this broker's own queue id. Raises: BrokerAnswer (it doesn't lead the logical queue)."""
    request: SendMessage = call.request
    queue_id = request.queue_id
    if queue_id < 0:
        led = list(led_queues(detail))
        queue_id = random.choice(led) if led else queue_id
    item = items_led(detail, queue_id)[-1]
    keeps_offset = is_half((request.properties or "").encode(), request.reconsume_times or 0)

    def translate(answer: Answer) -> Answer:
        if not isinstance(answer, SendAnswer) or answer.queue_offset is None:
            return answer
        offset = answer.queue_offset if keeps_offset else logical(item, answer.queue_offset)
        return msgspec.structs.replace(answer, queue_id=queue_id, queue_offset=offset)

    physical: Any = msgspec.structs.replace(request, queue_id=item.queue_id)
    return translated(call, physical, translate)
