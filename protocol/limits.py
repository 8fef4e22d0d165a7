"""Every limit of the protocol, by name."""

# Java's int and long.
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1

# The size of a whole frame with its length word, as in RocketMQ (com.rocketmq.remoting.frameMaxLength).
FRAME_BYTES_MAX = 16 * 1024 * 1024

# The limit for incoming frames. Outgoing headers are limited only by the frame: the response to a large batch contains
# 990 KB of message ids.
HEADER_BYTES_MAX = 1024 * 1024

# The number of header fields of a request whose signature is checked, because they are sorted. RocketMQ's clients send
# about 20. A header of 1 MiB can contain 130,000.
HEADER_FIELDS_MAX = 1_024

# The limit for a request whose body is decoded into values, unless it declares another one. While a body is decoded, no
# other client is served.
REQUEST_BODY_BYTES_MAX = 1024 * 1024
# A client with 1,000 groups that consume 10 topics each sends 2.5 MB.
HEARTBEAT_BYTES_MAX = 4 * 1024 * 1024
# All topics of a broker in its registration: 40,000 topics.
TABLE_BYTES_MAX = 8 * 1024 * 1024
# The number of groups of a client, and of topics of one of its groups. Each new group takes 10 us, and no other client
# is served meanwhile.
HEARTBEAT_GROUPS_MAX = 8_192
# Settings as a text. Those of RocketMQ's broker have 20 KB.
CONFIG_BYTES_MAX = 256 * 1024

# The number of tokens and escapes in the non-standard JSON of a frame; each takes 1 us. The longest such JSON of
# RocketMQ's clients is the running info of a consumer, with objects as keys: about 70 for each of its queues.
LENIENT_STEPS_MAX = 100_000

# The same limit for a response to our own request: the running info of a consumer with 14,000 queues.
LENIENT_ANSWER_STEPS_MAX = 1_000_000

# The body of one message, as stored (maxMessageSize).
BODY_BYTES_MAX = 4 * 1024 * 1024

# A compressed body after a consumer has expanded it. Without a limit, a record of 4 MiB could become one of 4 GiB.
EXPANDED_BYTES_MAX = 64 * 1024 * 1024

PROPERTIES_BYTES_MAX = 32_767

# The number of messages in one SEND_MANY that a broker accepts, however short they are.
SEND_MANY_TAKEN_MAX = 16_384
# The number of messages in one batch. RocketMQ limits only the body, which can contain 190,000 of the shortest
# messages.
BATCH_MESSAGES_MAX = 65_536
# The size of a SEND_MANY that a producer sends. A broker accepts one of up to a frame.
SEND_MANY_MESSAGES_MAX = 128
SEND_MANY_BYTES_MAX = 256 * 1024

PULL_MESSAGES_MAX = 32
# The limit with staticfire's own codec. RocketMQ returns at most 32, even if more are requested, and its clients expect
# no more.
PULL_MANY_MAX = 1_024
PULL_BYTES_MAX = 262_144
# A broker's settings can't raise the limits of a pull above these two: a response must fit into a frame.
PULL_ANSWER_BYTES_MAX = FRAME_BYTES_MAX // 2
PULL_ANSWER_MESSAGES_MAX = 16_384

# RocketMQ accepts any number. The response about a topic contains each of its queues, so a typing error such as a
# thousand million queues would block a broker.
QUEUES_OF_TOPIC_MAX = 65_536
