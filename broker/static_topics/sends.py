"""Where messages for a logical queue are stored. RocketMQ: TopicQueueMappingManager.rewriteRequestForStaticTopic.

Behaviour
- Only the broker that leads a logical queue takes messages for it. Without a queue id it takes one that it leads.
- While the logical offset of the leading stretch isn't decided, messages are taken, and their offset is -1.
- The offset of a half message is not translated: the request that ends the transaction says it again.
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
    """Return the refusal of a request to a broker that doesn't lead a logical queue."""
    items = detail.hosted_queues.get(queue_id)
    hint = f"broker {items[-1].bname} leads it" if items else "its route says which broker leads it"
    words = f"{detail.topic}-{queue_id} is not led by broker {detail.bname}: {hint}"
    return BrokerAnswer(ResponseCode.NOT_LEADER_FOR_QUEUE, words)


def items_led(detail: MappingDetail, queue_id: int) -> list[MappingItem]:
    """Return all stretches of a logical queue that this broker leads. Raises: BrokerAnswer (it doesn't)."""
    items = detail.hosted_queues.get(queue_id)
    if not items or items[-1].bname != detail.bname:
        raise not_led(detail, queue_id)
    return items


def placed(call: Call, detail: MappingDetail, random: Random) -> TranslatedCall:
    """Return a send in this broker's own numbers. Raises: BrokerAnswer (it doesn't lead the queue)."""
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
