-- `$since` and `$upto` are midnights; all records of the days between them are in `orders`.
INSERT OR REPLACE INTO days
SELECT
    CAST(arrival_ts AT TIME ZONE 'UTC' AS DATE) AS day,
    count(*) AS orders,
    sum(CAST(decode(data) ->> 'amount' AS BIGINT)) AS amount
FROM orders
WHERE arrival_ts >= $since AND arrival_ts < $upto
GROUP BY day
