"""The SQL of the analysis. `messages` and `consumption` are the input; the other views are made in this order."""

FIRST_STORED = """
    SELECT messageId, min(storeTimestamp) AS storedAt, count(*) AS copies
    FROM messages WHERE topic = :topic GROUP BY messageId
"""
FIRST_HANDLED = """
    SELECT messageId, min(consumedAt) AS consumedAt FROM consumption
    WHERE outcome = 'done' AND reconsumeTimes = 0 GROUP BY messageId
"""
ROADS = """
    SELECT storedAt, consumedAt,
           if(consumedAt IS NULL, NULL, greatest(unix_millis(consumedAt) - unix_millis(storedAt), 0)) AS latencyMs
    FROM first_stored LEFT JOIN first_handled USING (messageId)
"""
TOTAL = "SELECT coalesce(sum(copies), 0) AS stored, count(*) AS messages FROM first_stored"
LATENCY = """
    SELECT count(latencyMs) AS measured, percentile(latencyMs, array(0.5, 0.9, 0.99)) AS parts, max(latencyMs) AS most,
           percentile(latencyMs, :parts) AS curve
    FROM roads
"""
SPAN = (
    "SELECT unix_millis(min(storedAt)) AS began, unix_millis(max(greatest(storedAt, consumedAt))) AS ended FROM roads"
)
STORED_SERIES = """
    SELECT (unix_millis(storedAt) - :began) DIV :span AS part, count(*) AS stored,
           percentile(latencyMs, array(0.5, 0.99)) AS parts
    FROM roads GROUP BY part
"""
HANDLED_SERIES = """
    SELECT (unix_millis(consumedAt) - :began) DIV :span AS part, count(*) AS handled
    FROM roads WHERE consumedAt >= timestamp_millis(:began) GROUP BY part
"""
CONSUMERS = """
    SELECT consumer, count_if(outcome = 'done') AS handled, count_if(outcome = 'failed') AS failed,
           unix_millis(min(consumedAt)) AS firstMs, unix_millis(max(consumedAt)) AS lastMs
    FROM consumption GROUP BY consumer ORDER BY consumer
"""
TRIES = """
    SELECT reconsumeTimes AS times, count_if(outcome = 'done') AS handled, count_if(outcome = 'failed') AS failed
    FROM consumption GROUP BY reconsumeTimes
"""
RETURNS = """
    SELECT topic, if(topic = :dead, -1, reconsumeTimes) AS times, count(*) AS stored,
           count(DISTINCT messageId) AS messages,
           percentile(unix_millis(storeTimestamp) - unix_millis(storedAt), 0.5) AS afterMs
    FROM messages JOIN first_stored USING (messageId) WHERE topic IN (:retries, :dead) GROUP BY topic, times
"""
"""Retries by number of attempts, and all dead letters in one row."""

HANDLED_TWICE = """
    SELECT coalesce(sum(times - 1), 0) AS more FROM
    (SELECT count(*) AS times FROM consumption WHERE outcome = 'done' GROUP BY messageId)
"""
