"""The SQL of the tables. Each is a SELECT over the views (views.py) and over `life`, which is made first."""

LIFE = """
    SELECT groupName, topic, messageId, brokerName, queueId, queueOffset, bornAt, storedAt, copies, deliveredAt,
           deliveries, beganAt, handledAt, handledBy, coalesce(attempts, 0) AS attempts,
           coalesce(failures, 0) AS failures, coalesce(handlings, 0) AS handlings, lastTimes, deadAt,
           if(handledTimes = 0, greatest(unix_millis(handledAt) - unix_millis(storedAt), 0), NULL) AS latencyMs,
           CASE WHEN handledAt IS NOT NULL THEN 'handled' WHEN deadAt IS NOT NULL THEN 'dead'
                WHEN attempts > 0 AND failures = attempts THEN 'waits for its retry'
                WHEN attempts > 0 THEN 'its listener has not returned'
                WHEN queueOffset < committed THEN 'skipped, or consumed without a trace'
                ELSE 'waits' END AS state
    FROM (
        SELECT groupName, topic, messageId, p.place.brokerName, p.place.queueId, p.place.queueOffset, p.place.bornAt,
               p.place.storedAt, p.copies,
               wanted IS NULL OR coalesce(array_contains(wanted, p.place.tags), false) AS isWanted
        FROM pairs JOIN places AS p ON p.owner = '' AND p.reconsumeTimes = 0 AND p.place.topic = pairs.topic
        LEFT JOIN subscribed_tags USING (groupName, topic)
    ) LEFT JOIN (
        SELECT groupName, messageId, min(beganAt) AS beganAt, min(endedAt) FILTER (WHERE outcome = 'done') AS handledAt,
               min_by(consumer, endedAt) FILTER (WHERE outcome = 'done') AS handledBy,
               min_by(reconsumeTimes, endedAt) FILTER (WHERE outcome = 'done') AS handledTimes,
               count(*) AS attempts, count_if(outcome = 'failed') AS failures, count_if(outcome = 'done') AS handlings,
               max(reconsumeTimes) AS lastTimes
        FROM attempts GROUP BY groupName, messageId
    ) USING (groupName, messageId)
    LEFT JOIN dead USING (groupName, messageId)
    LEFT JOIN (
        SELECT groupName, topic, brokerName, queueId, queueOffset, min(deliveredAt) AS deliveredAt,
               count(*) AS deliveries
        FROM handed_out GROUP BY ALL
    ) USING (groupName, topic, brokerName, queueId, queueOffset)
    LEFT JOIN progress USING (groupName, topic, brokerName, queueId)
    WHERE isWanted OR attempts > 0
"""
"""A message's life in each group that consumes its topic, and has subscribed to its tag. Times are message time."""

LATENCY = """
    SELECT groupName, topic, messages, handled, measured, part[0] AS p50Ms, part[1] AS p90Ms, part[2] AS p99Ms, maxMs,
           dead, duplicates FROM (
        SELECT groupName, topic, count(*) AS messages, count(handledAt) AS handled, count(latencyMs) AS measured,
               percentile(latencyMs, array(0.5, 0.9, 0.99)) AS part, max(latencyMs) AS maxMs, count(deadAt) AS dead,
               coalesce(sum(greatest(handlings - 1, 0)), 0) AS duplicates
        FROM life GROUP BY groupName, topic
    ) ORDER BY ALL
"""
RETRIES = """
    SELECT groupName, topic, reconsumeTimes AS times, count(*) AS attempts, count_if(outcome = 'done') AS done,
           count_if(outcome = 'failed') AS failed, count_if(outcome = 'open') AS open,
           count(DISTINCT messageId) AS messages
    FROM attempts GROUP BY ALL ORDER BY ALL
"""
HANDLED_AGAIN = """
    SELECT groupName, topic, messageId, reconsumeTimes, consumer, endedAt, place, number,
           lag(consumer) OVER one AS consumerBefore, lag(reconsumeTimes) OVER one AS timesBefore,
           lag(realEndedAt) OVER one AS realBefore, realBeganAt
    FROM (
        SELECT *, row_number() OVER (PARTITION BY groupName, messageId ORDER BY endedAt, realEndedAt) AS number
        FROM attempts WHERE outcome = 'done'
    ) WINDOW one AS (PARTITION BY groupName, messageId ORDER BY number)
"""
HANDED_AGAIN = """
    SELECT groupName, topic, brokerName, queueId, queueOffset, clients, firstAt, lastAt,
           exists(ends, one -> array_contains(clients, one.client) AND one.leftAt >= firstAt AND one.leftAt <= lastAt)
           AS hasLeft
    FROM (
        SELECT groupName, topic, brokerName, queueId, queueOffset, collect_set(consumer) AS clients,
               min(realAt) AS firstAt, max(realAt) AS lastAt
        FROM handed_out GROUP BY ALL HAVING count(*) > 1
    ) LEFT JOIN (
        SELECT groupName, collect_list(struct(client, realAt AS leftAt)) AS ends
        FROM journal WHERE kind = 'left' GROUP BY groupName
    ) USING (groupName)
"""
DUPLICATES = """
    SELECT a.groupName, a.topic, a.messageId, a.reconsumeTimes, a.consumer, a.consumerBefore, a.endedAt,
           CASE WHEN p.copies > 1 THEN 'stored twice: its producer has sent it again'
                WHEN a.reconsumeTimes > a.timesBefore THEN 'sent back although it was handled'
                WHEN exists(r.resets, at -> at BETWEEN a.realBefore AND a.realBeganAt)
                     THEN 'an administrator has reset the group'
                WHEN h.hasLeft THEN 'its member left before it committed'
                WHEN size(h.clients) > 1 OR a.consumer <> a.consumerBefore THEN 'the queue changed its owner'
                ELSE 'delivered to the same member again' END AS cause
    FROM handled_again AS a
    JOIN places AS p ON p.owner = '' AND p.reconsumeTimes = 0 AND p.messageId = a.messageId
    LEFT JOIN (SELECT groupName, collect_set(realAt) AS resets FROM journal WHERE kind = 'reset' GROUP BY groupName)
         AS r ON r.groupName = a.groupName
    LEFT JOIN handed_again AS h ON h.groupName = a.groupName AND h.topic = a.place.topic
         AND h.brokerName = a.place.brokerName AND h.queueId = a.place.queueId AND h.queueOffset = a.place.queueOffset
    WHERE a.number > 1
"""
DELAYS = """
    SELECT level, count(*) AS waits, count_if(lateMs < 0) AS early, percentile(lateMs, 0.5) AS p50LateMs,
           percentile(lateMs, 0.99) AS p99LateMs, max(lateMs) AS maxLateMs, any_value(delayMs) AS delayMs FROM (
        SELECT level, delayMs, min_by(lateMs, abs(lateMs)) AS lateMs FROM (
            SELECT w.brokerName, w.queueId + 1 AS level, w.queueOffset, l.delayMs,
                   unix_millis(s.storedAt) - unix_millis(w.storeTimestamp) - l.delayMs AS lateMs
            FROM messages AS w JOIN stored AS s ON s.messageId = w.messageId AND s.reconsumeTimes = w.reconsumeTimes
            JOIN (SELECT pos + 1 AS level, col AS delayMs FROM (SELECT posexplode(:levels))) AS l
                 ON l.level = w.queueId + 1
            WHERE w.topic = :waiting AND s.storedAt >= w.storeTimestamp
        ) GROUP BY brokerName, level, queueOffset, delayMs
    ) GROUP BY level ORDER BY level
"""
"""A delayed message and the message that it became have the same id and reconsume count. If two groups retried it
equally often, the wait is assigned to the message that is nearest to its due time."""

SPAN = """
    SELECT unix_millis(min(storedAt)) AS beganMs, unix_millis(max(greatest(storedAt, coalesce(handledAt, storedAt))))
           AS endedMs FROM life
"""
LAG = """
    SELECT groupName, topic, part, timestamp_millis(:began + part * :span) AS at, stored, handled,
           sum(stored - handled) OVER (PARTITION BY groupName, topic ORDER BY part) AS waiting
    FROM (
        SELECT groupName, topic, part, sum(stored) AS stored, sum(handled) AS handled FROM (
            SELECT groupName, topic, (unix_millis(storedAt) - :began) DIV :span AS part, 1 AS stored, 0 AS handled
            FROM life
            UNION ALL
            SELECT groupName, topic, (unix_millis(coalesce(handledAt, deadAt)) - :began) DIV :span, 0, 1
            FROM life WHERE coalesce(handledAt, deadAt) >= timestamp_millis(:began)
        ) GROUP BY ALL
    ) ORDER BY ALL
"""
OWNERSHIP_NOTED = """
    SELECT groupName, topic, brokerName, queueId, client AS consumer, at AS fromAt, realAt,
           array_min(array_compact(array(nextAt, leftAt))) AS toAt
    FROM (
        SELECT groupName, topic, brokerName, queueId, client, at, realAt,
               lead(at) OVER (PARTITION BY groupName, topic, brokerName, queueId ORDER BY realAt, number) AS nextAt,
               array_min(transform(filter(coalesce(ends, array()), one -> one.client = t.client
                   AND one.brokerName = t.brokerName AND one.realAt >= t.realAt), one -> one.at)) AS leftAt
        FROM journal AS t LEFT JOIN (
            SELECT groupName, collect_list(struct(client, brokerName, realAt, at)) AS ends
            FROM journal WHERE kind = 'left' GROUP BY groupName
        ) USING (groupName)
        WHERE kind = 'tookOver' AND client <> ''
    ) WHERE array_contains(split(coalesce(nullif(:groups, ''), groupName), ' '), groupName)
"""
OWNERSHIP_SEEN = """
    SELECT groupName, topic, brokerName, queueId, consumer, min(beganAt) AS fromAt, min(realBeganAt) AS realAt,
           max(coalesce(endedAt, beganAt)) AS toAt
    FROM (
        SELECT *, sum(if(consumer = before, 0, 1)) OVER one AS island FROM (
            SELECT groupName, place.topic AS topic, place.brokerName, place.queueId, consumer, beganAt, endedAt,
                   realBeganAt, lag(consumer, 1, '') OVER (
                       PARTITION BY groupName, place.topic, place.brokerName, place.queueId
                       ORDER BY realBeganAt, place.queueOffset) AS before
            FROM attempts
        ) WINDOW one AS (PARTITION BY groupName, topic, brokerName, queueId ORDER BY realBeganAt
                         ROWS UNBOUNDED PRECEDING)
    ) GROUP BY groupName, topic, brokerName, queueId, island, consumer
"""
"""Without a journal: the consumer of a queue, from its first call to its last one before another consumer's call."""

OWNERSHIP = """
    SELECT groupName, topic, brokerName, queueId, coalesce(told, consumer) AS consumer, fromAt, toAt, realAt
    FROM ownership_raw LEFT JOIN (SELECT groupName, client AS consumer, min(told) AS told FROM shown GROUP BY ALL)
         USING (groupName, consumer)
    ORDER BY groupName, topic, brokerName, queueId, realAt
"""
REBALANCES = """
    SELECT groupName, number, min(realAt) AS realAt, min(fromAt) AS at, count(*) AS queues,
           count(DISTINCT consumer) AS members, unix_millis(max(realAt)) - unix_millis(min(realAt)) AS tookMs,
           max_by(cause.words, cause.realAt) AS cause
    FROM (
        SELECT o.*, try_element_at(filter(coalesce(known, array()), one -> one.realAt <= o.realAt
                               AND one.realAt >= o.realAt - INTERVAL 2 MINUTES), -1) AS cause
        FROM (
            SELECT *, sum(if(gapMs <= 2000, 0, 1)) OVER (PARTITION BY groupName ORDER BY realAt
                             ROWS UNBOUNDED PRECEDING) AS number
            FROM (
                SELECT *, unix_millis(realAt) - unix_millis(lag(realAt) OVER (PARTITION BY groupName ORDER BY realAt))
                          AS gapMs
                FROM ownership_raw
            )
        ) AS o LEFT JOIN (
            SELECT groupName, array_sort(collect_set(struct(realAt, concat(client,
                       if(kind = 'left', concat(' left (', words, ')'), ' joined')) AS words))) AS known
            FROM journal WHERE kind IN ('joined', 'left') GROUP BY groupName
        ) USING (groupName)
    ) GROUP BY groupName, number ORDER BY groupName, number
"""
"""Queues that changed owners within two seconds of each other, and the last member before that joined or left."""

OVERLAPS = """
    WITH leaves AS (
        SELECT groupName, coalesce(told, client) AS consumer, collect_list(realAt) AS leftAt
        FROM journal LEFT JOIN shown USING (groupName, client) WHERE kind = 'left' GROUP BY ALL
    ), calls_of_queue AS (
        SELECT groupName, place.topic AS topic, place.brokerName, place.queueId, consumer, messageId, reconsumeTimes,
               realBeganAt, realEndedAt,
               coalesce(realEndedAt, array_min(filter(leftAt, one -> one >= realBeganAt)), timestamp '9999-12-31')
               AS runsUntil
        FROM attempts LEFT JOIN leaves USING (groupName, consumer)
    ), others AS (
        SELECT DISTINCT groupName, topic, brokerName, queueId, consumer AS other FROM calls_of_queue
    )
    SELECT groupName, topic, brokerName, queueId, count(*) AS calls, max(overlapMs) AS maxMs,
           min(realBeganAt) AS firstAt
    FROM (
        SELECT groupName, topic, brokerName, queueId, realBeganAt,
               unix_millis(least(max(openUntil), coalesce(
                   realEndedAt, (SELECT max(coalesce(realEndedAt, realBeganAt)) FROM attempts))))
               - unix_millis(realBeganAt) AS overlapMs
        FROM (
            SELECT *, max(if(consumer = other, runsUntil, NULL)) OVER (
                       PARTITION BY groupName, topic, brokerName, queueId, other ORDER BY realBeganAt, messageId
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS openUntil
            FROM calls_of_queue JOIN others USING (groupName, topic, brokerName, queueId)
        ) WHERE other <> consumer AND openUntil > realBeganAt
        GROUP BY groupName, topic, brokerName, queueId, consumer, messageId, reconsumeTimes, realBeganAt, realEndedAt
    ) GROUP BY groupName, topic, brokerName, queueId ORDER BY ALL
"""
"""Calls for a queue that began while another member's call for it was still running. A call that never returned runs
until its member leaves. Each call is compared with each other member of its queue."""

QUEUES = """
    SELECT groupName, topic, brokerName, queueId, count(*) AS stored, count(handledAt) AS handled,
           100 * count(*) / (sum(count(*)) OVER (PARTITION BY groupName, topic)) AS sharePercent,
           percentile(latencyMs, 0.99) AS p99Ms
    FROM life GROUP BY groupName, topic, brokerName, queueId ORDER BY ALL
"""
MEMBERS = """
    SELECT groupName, consumer, count(*) AS attempts, count_if(outcome = 'done') AS done,
           count_if(outcome = 'failed') AS failed, count_if(outcome = 'open') AS open,
           100 * count(*) / (sum(count(*)) OVER (PARTITION BY groupName)) AS sharePercent,
           min(realBeganAt) AS firstAt, max(coalesce(realEndedAt, realBeganAt)) AS lastAt,
           count(DISTINCT place.brokerName, place.topic, place.queueId) AS queues
    FROM attempts GROUP BY groupName, consumer ORDER BY ALL
"""
STUCK = """
    SELECT groupName, topic, state, count(*) AS messages, min(storedAt) AS oldestAt,
           array_sort(collect_list(if(number <= 3, messageId, NULL))) AS examples
    FROM (
        SELECT *, row_number() OVER (PARTITION BY groupName, topic, state ORDER BY storedAt) AS number FROM life
        WHERE state NOT IN ('handled', 'dead')
    ) GROUP BY groupName, topic, state ORDER BY groupName, topic, state
"""
