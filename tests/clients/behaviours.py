"""What is asked of every client, in the order of the tables; the drivers use the names on the left.

Early by a tenth of a second is wrong. How late something may be tells it from the next road that brings it there
(the next rebalance, the next retry), and no more: the machine runs several clients at once. Lateness is the bench's.
"""

BEHAVIOURS = {
    "send-sync": "a send is answered with status, ids, queue and offset",
    "send-async": "so are asynchronous sends",
    "send-oneway": "one-way sends arrive",
    "send-batch": "a batch arrives, in one queue",
    "properties": "keys, tags, properties, born host and ids arrive as they were sent",
    "tags": "TagA || TagB: nothing else is consumed",
    "sql92": "number >= 10 AND parity IN ('even'): nothing else is consumed",
    "once-each": "of 200 messages each is consumed once",
    "retry": "RECONSUME_LATER comes back after 10 s with reconsumeTimes 1, same unique id, original topic",
    "delay": "delay level 2 is 5 s",
    "timers": "TIMER_DELAY_MS, TIMER_DELAY_SEC and TIMER_DELIVER_MS come when they are due",
    "recall": "a message that waits is called back; one that was delivered can't be",
    "ordered": "each queue is consumed in order",
    "broadcast": "two broadcasting consumers get everything each",
    "share-queues": "two consumers share the queues; one leaves, and the other takes over at once",
    "consumer-restart": "offsets survive a restart of the consumer",
    "broker-restart": "offsets survive a restart of the broker, and the producer finds it again",
    "pull": "queues are pulled from any offset, to and behind their ends",
    "lite-pull": "the lite pull consumer subscribes, is assigned, seeks",
    "transactions": "a half message is committed, rolled back, asked about: what counts is consumed once",
    "request-reply": "a request is answered, and each gets its own reply; so are ours by it, and its by ours",
    "trace": "what the client traces of sends, consumption and recalls is found in the life of the message",
    "queries": "messages are found by key, by unique id, by offset id",
    "too-large": "a message of more than 4 MiB is refused with code 13; the next one is stored",
    "auto-create": "an unknown topic is created with 4 queues",
    "no-auto-create": "without auto-creation an unknown topic is refused",
}

BEHAVIOURS_5 = {
    "send": "sends are answered with ids, over all queues; asynchronous ones, too",
    "properties": "body, keys, tag, properties and id arrive as they were sent",
    "receive": "a simple consumer receives each message once, and what it acknowledges never again",
    "change": "a changed invisible time brings the message again after it, attempt 2, the same id",
    "tags": "TagA || TagB: nothing else is received",
    "sql92": "number >= 10 AND parity IN ('even'): nothing else is received",
    "push": "a push consumer gets each of 200 messages once",
    "retry": "what its listener fails to do comes again after the group's first pause, attempt 2",
    "share": "two push consumers of a group share the messages",
    "fifo": "messages of a group are consumed in their order",
    "delay": "a delivery time 4 s ahead is kept",
    "recall": "a message that was called back never comes",
    "transaction": "what is committed comes, what is rolled back doesn't",
    "orphan": "a transaction that nobody ended is asked about, and committed by the checker",
    "dead-letter": "with retryMaxTimes 1 a message is a dead letter after two attempts",
    "types": "a topic of type NORMAL takes no ordered message",
    "large": "a body of 4 MB arrives",
    "restart": "a broker that is restarted is found again, by producer and consumer",
}
"""Of clients of RocketMQ 5, by gRPC."""
