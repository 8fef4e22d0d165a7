"""Differences from RocketMQ 5.3.3 that are meant to be."""

from tests.oracle.compare import Explained
from tests.oracle.exchange import SILENT
from tests.oracle.normal import EXCEPTION

NAMED = "a field of the wrong type is refused and named; RocketMQ takes it for absent"
ABSENT = "a required field that is absent is refused and named; RocketMQ goes on with null"
CHECKED = "a number outside of Java's int is refused where it is decoded, and named; RocketMQ takes it for absent"
MALFORMED = "a header that is no object with a code closes the connection; RocketMQ answers code 0, or never"

EXPLAINED = [
    # Remarks
    Explained("*", "remark", "the remark says what is wrong, not which exception it caused", EXCEPTION),
    Explained(
        "*", "remark", "a success needs no remark; RocketMQ's is that of an answer without a code", "not set any*"
    ),
    Explained("*", "remark", "the remark names the code", " request type * not supported"),
    Explained("min*", "remark", "a success needs no remark; here RocketMQ's is empty", ""),
    Explained("pull from queue *", "remark", "an address without Java's slash", "queueId*"),
    Explained("create with +message.type=NOPE", "remark", "the values in their order, not in that of a Java set"),
    # Fields of the wrong type, and absent ones
    *[
        Explained(f"{steps}{wrong}", "*", NAMED)
        for steps in (
            "send with defaultTopicQueueNums=",
            "send with reconsumeTimes=",
            "send with unitMode=",
            "send with batch=",
            "topic {run}made with topicSysFlag=",
            "commit it with commitOffset=",
            "commit it in with queueId=",
            "give back with maxReconsumeTimes=",
        )
        for wrong in ("'x'", "''")
    ],
    Explained("send with defaultTopicQueueNums='1.5'", "*", NAMED),
    Explained("send with reconsumeTimes='1.5'", "*", NAMED),
    Explained("send with maxReconsumeTimes='x'", "*", NAMED),
    Explained("query*with setZero x", "*", NAMED),
    Explained("send with reconsumeTimes='9999*", "*", CHECKED),
    Explained("send with defaultTopicQueueNums='9999*", "*", CHECKED),
    Explained(
        "send with batch='1'", "*", "1 is true: the C++ core says so; RocketMQ stores its batches as one message"
    ),
    Explained("route of no topic", "*", ABSENT),
    Explained("route without fields", "*", ABSENT),
    Explained("topics of no cluster", "*", ABSENT),
    Explained("get a value without key", "*", ABSENT),
    Explained("query of a new group without consumerGroup", "*", ABSENT),
    Explained("commit it without consumerGroup", "*", ABSENT),
    Explained("heartbeat of an empty object", "*", "a client without an id is refused: nobody could be told of it"),
    Explained("lock without a client", "*", ABSENT),
    Explained("topic {run}made without topicFilterType", "*", "SINGLE_TAG when nothing is said"),
    Explained("topic {run}made with topicFilterType=''", "*", "SINGLE_TAG when nothing is said"),
    # Static topics
    Explained("static topic *", "remark", "the refusal says of which queue, and what would be accepted"),
    Explained("pull *stati*", "remark", "the remark says what was found there", "None"),
    Explained("pull *stretch*", "remark", "the remark says what was found there", "None"),
    Explained("send to a static queue *", "remark", "the refusal says which broker leads the queue"),
    Explained("max, undecided, of static queue*", "field offset", "the end of the queue that the offsets belong to"),
    # What isn't built
    Explained("batch of delayed ones", "*", "RocketMQ delivers them at once, here they are refused"),
    Explained("batch that is half", "*", "RocketMQ delivers it at once, here it is refused"),
    Explained("batch of half ones", "*", "RocketMQ delivers them at once, here they are refused"),
    Explained("stored in batched-2", "*", "RocketMQ delivers them at once, here they are refused"),
    Explained("create with *BatchCQ*", "*", "queues of whole batches are refused in words: docs/decisions/0022"),
    Explained("config after *BatchCQ*", "*", "queues of whole batches are refused in words: docs/decisions/0022"),
    Explained("send a batch in one message*", "remark", "the remark says which rule it breaks", "the message is*"),
    Explained("create with *COMPACTION*", "*", "a kind of topic that isn't built is refused"),
    Explained("config after *COMPACTION*", "*", "a kind of topic that isn't built is refused"),
    # Better answers
    Explained("send*", "field [MT]*", "region and trace switch are on refusals of every kind", "<absent>"),
    Explained("batch*", "field [MT]*", "region and trace switch are on refusals of every kind", "<absent>"),
    Explained("send to any queue of a topic without queues", "*", "29 as for any other queue that there isn't"),
    Explained("route of an unknown retry topic", "*", "so that a new group pulls its retries from its first rebalance"),
    Explained("pull with a class filter", "*", "class filters are no goal, and not silently ignored"),
    Explained("a binary header*", "codec", "an answer goes out in the codec of its request"),
    Explained("send with a time beyond a long", "*", "it is too far away; RocketMQ's wraps, and is delivered at once"),
    # Conditions
    Explained("check '+ +'", "remark", "a fault behind a unary plus is told where it is, not at the plus"),
    Explained("choose 'a >'", "*", "RocketMQ gives every message to a pull whose condition doesn't parse"),
    Explained("choose by another kind", "*", "RocketMQ gives every message to a pull by an unknown kind of expression"),
    Explained("pull with the tag type in small*", "*", "RocketMQ gives every message to a pull by an unknown kind"),
    Explained("choose ''", "remark", "the reason stands behind it", "parse the consumer's subscription failed"),
    Explained("check another kind", "remark", "the remark says what is wrong, not which exception it caused"),
    Explained("check no text", "*", "no text is no condition; a subscription without one is to all tags, as anywhere"),
    Explained("check nested 3,000 deep", "*", "parentheses may nest as deep as they like", "*"),
    Explained("check negated 3,000 times", "remark", "the limit is named, and doesn't depend on a thread's stack"),
    Explained("check of 10,000 parts", "*", "a condition has a limit, which is named"),
    # Malformed frames
    Explained("header that is*", "code", MALFORMED, SILENT),
    Explained("header without code", "*", MALFORMED),
    Explained("header with a list as fields", "*", "the header can be read, so its request is refused"),
    Explained("a frame over the limit", "*", "it is answered before the connection is closed"),
    # Not yet
]
