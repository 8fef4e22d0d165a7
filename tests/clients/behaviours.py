"""What is asked of every client, in the order of the table; the drivers use the names on the left."""

BEHAVIOURS = {
    "send-sync": "a send is answered with status, ids, queue and offset",
    "send-async": "so are asynchronous sends",
    "send-oneway": "one-way sends arrive",
    "send-batch": "a batch arrives, in one queue",
    "properties": "keys, tags, properties, born host and ids arrive as they were sent",
    "tags": "TagA || TagB: nothing else is consumed",
    "once-each": "of 200 messages each is consumed once",
    "retry": "RECONSUME_LATER comes back after 10 s with reconsumeTimes 1, same unique id, original topic",
    "delay": "delay level 2 is 5 s",
    "ordered": "each queue is consumed in order",
    "broadcast": "two broadcasting consumers get everything each",
    "share-queues": "two consumers share the queues; one leaves, and the other takes over at once",
    "consumer-restart": "offsets survive a restart of the consumer",
    "broker-restart": "offsets survive a restart of the broker, and the producer finds it again",
    "pull": "queues are pulled from any offset, to and behind their ends",
    "lite-pull": "the lite pull consumer subscribes, is assigned, seeks",
    "queries": "messages are found by key, by unique id, by offset id",
    "too-large": "a message of more than 4 MiB is refused with code 13; the next one is stored",
    "auto-create": "an unknown topic is created with 4 queues",
    "no-auto-create": "without auto-creation an unknown topic is refused",
}
