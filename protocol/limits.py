"""Every limit of the protocol, by name."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
# The whole frame with its length word, as in RocketMQ (com.rocketmq.remoting.frameMaxLength).

HEADER_BYTES_MAX = 1024 * 1024
# Of an incoming frame. What goes out is bounded by the frame: a big batch is answered with 990 KB of message ids.

REQUEST_BODY_BYTES_MAX = 1024 * 1024
# Of a request whose body is read into values, unless it declares another limit: nobody else is served meanwhile.
HEARTBEAT_BYTES_MAX = 4 * 1024 * 1024
# A client with 1,000 groups that consume 10 topics each has 2.5 MB.
TABLE_BYTES_MAX = 8 * 1024 * 1024
# All topics of a broker, as it registers them: 40,000.
HEARTBEAT_GROUPS_MAX = 8_192
# Of a client, and topics of one of its groups: each new group costs 10 us, and nobody else is served meanwhile.
CONFIG_BYTES_MAX = 256 * 1024
# Settings as a text, of which RocketMQ's broker has 20 KB.

LENIENT_STEPS_MAX = 100_000
# Tokens and escapes of JSON that isn't standard, in a frame: 1 us each. The longest that RocketMQ's clients write is
# the running info of a consumer, with objects as keys: about 70 for each of its queues.

LENIENT_ANSWER_STEPS_MAX = 1_000_000
# The same of an answer, for which we have asked: the running info of a consumer with 14,000 queues.

BODY_BYTES_MAX = 4 * 1024 * 1024
# One message's body, as stored (maxMessageSize).

EXPANDED_BYTES_MAX = 64 * 1024 * 1024
# A compressed body as a consumer expands it: a record of 4 MiB could become one of 4 GiB.

PROPERTIES_BYTES_MAX = 32_767

SEND_MANY_TAKEN_MAX = 16_384
# Of one SEND_MANY at a broker, however short they are.
BATCH_MESSAGES_MAX = 65_536
# Of one batch. RocketMQ has no limit but that of the body: 190,000 of the shortest.
SEND_MANY_MESSAGES_MAX = 128
SEND_MANY_BYTES_MAX = 256 * 1024
# What a producer gathers into one SEND_MANY. A broker takes up to a frame.

PULL_MESSAGES_MAX = 32
PULL_MANY_MAX = 1_024
# Over staticfire's own codec. RocketMQ gives 32, whatever was asked for, and its clients count on no more.
PULL_BYTES_MAX = 262_144
PULL_ANSWER_BYTES_MAX = FRAME_BYTES_MAX // 2
PULL_ANSWER_MESSAGES_MAX = 16_384
# What a broker's settings can raise these to: an answer has to fit into a frame, whatever somebody sets.

QUEUES_OF_TOPIC_MAX = 65_536
# RocketMQ takes any number. Who asks about a topic is told of each of its queues, so a thousand million of them, from a
# slip of the keyboard, would keep a broker busy for good.
