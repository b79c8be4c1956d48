-- The accepted changes of projections, by the rules of every reader of the log: a change counts when it is of the epoch and owner of
-- the last accepted claim before it, and its input comes after the projection's last one. What is older than the first claim that was
-- landed can't be judged and is left out.
CREATE OR REPLACE VIEW statefold_changes AS
WITH
    -- An integer past 64 bits is written as a double (1…0e0): with it as it is the JSON type takes nothing of the whole text. Texts,
    -- other numbers and what is between them stay.
    json -> if(match(json, '[0-9]{19}'), arrayStringConcat(arrayMap(
        token -> if(match(token, '^-?[0-9]{19,308}$') AND (length(token) > 20 OR toInt128OrZero(token) NOT BETWEEN -9223372036854775808 AND 18446744073709551615), concat(token, 'e0'), token),
        extractAll(json, '"(?:[^"\\\\]|(?s:\\\\.))*"|-?[0-9]+(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|[^"0-9-]+|-')
    )), json) AS readable,
terms AS
(
    -- By any later epoch, not the next one: a claim that landed behind a higher one is void, and ends nobody's term. Epochs that a
    -- partition counted itself (rules 1) say nothing of those that it is given (rules 2), and end with the first of them.
    SELECT topic, kafka_partition, epoch, owner, claimed_at,
        least(
            ifNull(min(toNullable(claimed_at)) OVER (PARTITION BY topic, kafka_partition, is_given ORDER BY epoch ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), toUInt64(18446744073709551615)),
            if(is_given, toUInt64(18446744073709551615), ifNull(min(if(is_given, toNullable(claimed_at), NULL)) OVER (PARTITION BY topic, kafka_partition), toUInt64(18446744073709551615)))
        ) AS ended_at
    FROM
    (
        SELECT topic, kafka_partition, claim_rules > 1 AS is_given, epoch, argMin(owner, log_offset) AS owner, min(log_offset) AS claimed_at
        FROM statefold_changes_landed WHERE claim_rules IS NOT NULL GROUP BY topic, kafka_partition, is_given, epoch
    )
),
changes AS
(
    SELECT landed.*,
        (input_offset + 1, input_index) AS input,
        max((input_offset + 1, input_index)) OVER (PARTITION BY topic, kafka_partition, projection_id ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
    FROM (SELECT * FROM statefold_changes_landed WHERE projection_id != '') AS landed
    INNER JOIN terms ON landed.topic = terms.topic AND landed.kafka_partition = terms.kafka_partition AND landed.epoch = terms.epoch AND landed.owner = terms.owner
    WHERE log_offset > claimed_at AND log_offset < ended_at
)
SELECT
    splitByChar('_', splitByChar('.', topic)[-2])[1] AS tenant,
    projection_id,
    log_offset AS sequence,
    class_name,
    key,
    aggregate_type,
    aggregate_id,
    version,
    event_id,
    timestamp AS last_modified,
    ifNull(cause, '') AS cause,
    JSONExtract(readable(ifNull(changes.state, '')), 'JSON(max_dynamic_paths = 256)') AS state,
    changes.state AS state_raw,
    fault,
    topic
FROM changes
WHERE input > reached
