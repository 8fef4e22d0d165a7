r"""The SQL of the views, in the order in which they depend on each other.

The input is `messages` (an ingest's table), `journal` and `progress` (noted.py), and `ledger`, which may be empty:

    groupName string, consumer string, messageId string, reconsumeTimes int, beganAt timestamp, endedAt timestamp,
    outcome string

*Attempts* are calls of a listener with a message. They come from the ledger, or from traces (RocketMQ's text form:
fields end with U+0001, records with U+0002), or, if there is neither, from the brokers' deliveries. They contain the
message's id. Its queue and offset are looked up: for the first attempt in its topic, later in its group's retry topic.
The author of a trace is found by the id of the message that carries it, which starts with IP address and process id.
The journal is more precise: it has the client that each message was delivered to.

Traces and ledgers contain real time, brokers' records contain message time. `faces` relates the two.
"""

BROADCASTING = """
    SELECT DISTINCT groupName FROM whole_journal
    WHERE kind = 'joined' AND get_json_object(details, '$.messageModel') = 'BROADCASTING'
"""
JOURNAL = "SELECT * FROM whole_journal LEFT ANTI JOIN broadcasting USING (groupName)"
"""Each member of a broadcasting group consumes every message. In tables by group, these would be duplicates."""

TRACES = r"""
    SELECT DISTINCT teller, split(line, '\u0001') AS f FROM (
        SELECT messageId AS teller, explode(split(cast(body AS string), '\u0002')) AS line
        FROM messages WHERE topic = :trace
    ) WHERE line <> ''
"""
CALLS = """
    SELECT teller, f[3] AS groupName, f[4] AS requestId, f[5] AS messageId, try_cast(f[6] AS int) AS reconsumeTimes,
           try_cast(f[1] AS bigint) AS beganMs
    FROM traces WHERE f[0] = 'SubBefore'
"""
RETURNS = """
    SELECT f[1] AS requestId, f[2] AS messageId, max(try_cast(f[3] AS bigint)) AS costMs,
           max(if(f[4] = 'true', 'done', 'failed')) AS outcome
    FROM traces WHERE f[0] = 'SubAfter' GROUP BY ALL
"""
TRACED = """
    SELECT groupName, CASE WHEN length(teller) = 32 THEN concat(
               conv(substr(teller, 1, 2), 16, 10), '.', conv(substr(teller, 3, 2), 16, 10), '.',
               conv(substr(teller, 5, 2), 16, 10), '.', conv(substr(teller, 7, 2), 16, 10), '@',
               conv(substr(teller, 9, 4), 16, 10), '-', substr(teller, 13, 8))
               ELSE substr(teller, 1, 44) END AS consumer,
           messageId, coalesce(reconsumeTimes, 0) AS reconsumeTimes, timestamp_millis(beganMs) AS beganAt,
           timestamp_millis(beganMs + costMs) AS endedAt, coalesce(outcome, 'open') AS outcome
    FROM calls LEFT JOIN returns USING (requestId, messageId)
"""
SUBSCRIBED_TAGS = """
    SELECT groupName, topic, flatten(collect_set(split(trim(expression), ' *[|][|] *'))) AS wanted FROM (
        SELECT groupName, topic, get_json_object(details, '$.expression') AS expression
        FROM journal WHERE kind = 'subscribed'
        UNION ALL
        SELECT groupName,
               explode(from_json(get_json_object(details, '$.subscriptions'), 'map<string,string>'))
               AS (topic, expression)
        FROM journal WHERE kind = 'joined'
    ) WHERE expression <> '' GROUP BY groupName, topic
    HAVING bool_and(NOT exists(split(trim(expression), ' *[|][|] *'), tag -> tag RLIKE '[*=<>() ]'))
"""
"""The tags that a group has subscribed to. A group that wants all tags, or has used a condition, isn't there."""

HANDED_OUT = """
    SELECT groupName, client AS consumer, topic, brokerName, queueId, at AS deliveredAt, realAt,
           explode(sequence(queueOffset, endOffset - 1)) AS queueOffset
    FROM journal WHERE kind = 'delivered' AND endOffset > queueOffset
"""
STORED = """
    SELECT topic, regexp_extract(topic, '^%RETRY%(.+)$', 1) AS owner, brokerName, queueId, queueOffset, messageId,
           reconsumeTimes, bornTimestamp AS bornAt, storeTimestamp AS storedAt, tags
    FROM messages WHERE topic <> :trace AND topic <> :waiting AND NOT startswith(topic, '%DLQ%')
"""
PLACES = """
    SELECT owner, messageId, reconsumeTimes, count(*) AS copies,
           min_by(struct(topic, brokerName, queueId, queueOffset, storedAt, bornAt, tags),
                  struct(storedAt, brokerName, queueId, queueOffset)) AS place
    FROM stored GROUP BY owner, messageId, reconsumeTimes
"""
GIVEN_BACK = """
    SELECT groupName, topic, brokerName, queueId, queueOffset, min(realAt) AS givenBackAt
    FROM journal WHERE kind = 'sentBack' GROUP BY ALL
"""
FROM_DELIVERIES = """
    SELECT groupName, consumer, messageId, reconsumeTimes, realAt AS beganAt, coalesce(givenBackAt, realAt) AS endedAt,
           if(givenBackAt IS NULL, 'done', 'failed') AS outcome
    FROM handed_out JOIN stored USING (topic, brokerName, queueId, queueOffset)
    LEFT JOIN given_back USING (groupName, topic, brokerName, queueId, queueOffset)
    LEFT JOIN subscribed_tags USING (groupName, topic)
    WHERE wanted IS NULL OR array_contains(wanted, tags)
"""
"""A journal has the range of a delivery, which contains messages with other tags, too."""

FACES = """
    SELECT realAt AS since, at AS showed, rate, lead(realAt) OVER (ORDER BY number) AS until FROM journal
    WHERE kind = 'clockSet' AND brokerName = (SELECT min(brokerName) FROM journal WHERE kind = 'clockSet')
"""
IN_MESSAGE_TIME = """
    SELECT groupName, consumer, messageId, reconsumeTimes, outcome, beganAt AS realBeganAt, endedAt AS realEndedAt,
           {began} AS beganAt, {ended} AS endedAt
    FROM raw_attempts AS a {joins}
"""
"""Formatted without joins if message time was never changed."""

SHOWN = """coalesce(timestamp_millis(cast(unix_millis({face}.showed) + {face}.rate *
           (unix_millis(a.{name}) - unix_millis({face}.since)) AS bigint)), a.{name})"""
FACE_JOIN = """LEFT JOIN (SELECT * FROM faces) AS {face} ON a.{name} >= {face}.since AND
           (a.{name} < {face}.until OR {face}.until IS NULL)"""

PLACED = """
    SELECT groupName, consumer, a.messageId, a.reconsumeTimes, outcome, beganAt, endedAt, realBeganAt, realEndedAt,
           coalesce(back.place, origin.place) AS place, origin.place.topic AS topic
    FROM timed_attempts AS a
    LEFT JOIN (SELECT owner, messageId, reconsumeTimes, place FROM places WHERE owner <> '') AS back
           ON a.groupName = back.owner AND a.messageId = back.messageId AND a.reconsumeTimes = back.reconsumeTimes
    JOIN (SELECT messageId AS id, place FROM places WHERE owner = '' AND reconsumeTimes = 0) AS origin
           ON a.messageId = origin.id
    LEFT ANTI JOIN broadcasting AS b ON a.groupName = b.groupName
    WHERE array_contains(split(coalesce(nullif(:groups, ''), groupName), ' '), groupName)
"""
NAMES = """
    SELECT groupName, told, max_by(client, count) AS client FROM (
        SELECT a.groupName, a.consumer AS told, h.consumer AS client, count(*) AS count
        FROM placed AS a JOIN handed_out AS h ON h.groupName = a.groupName AND h.topic = a.place.topic
             AND h.brokerName = a.place.brokerName AND h.queueId = a.place.queueId
             AND h.queueOffset = a.place.queueOffset
        GROUP BY ALL
    ) GROUP BY groupName, told
"""
"""The client that a ledger or trace belongs to: the one that most of its messages were delivered to."""

ATTEMPTS_OF_CLIENTS = """
    SELECT groupName, coalesce(client, told) AS consumer, messageId, reconsumeTimes, outcome, beganAt, endedAt,
           realBeganAt, realEndedAt, place, topic
    FROM (SELECT *, consumer AS told FROM placed) LEFT JOIN names USING (groupName, told)
"""
DEAD = """
    SELECT substr(topic, 6) AS groupName, messageId, min(storeTimestamp) AS deadAt, count(*) AS letters
    FROM messages WHERE startswith(topic, '%DLQ%') GROUP BY ALL
"""
PAIRS = """
    SELECT DISTINCT groupName, topic FROM attempts
    UNION SELECT DISTINCT groupName, topic FROM journal
    WHERE kind = 'delivered' AND NOT startswith(topic, '%')
    AND array_contains(split(coalesce(nullif(:groups, ''), groupName), ' '), groupName)
"""
