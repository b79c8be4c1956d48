-- The accepted events, by the rules of every reader of the log: a commit counts when it is of the epoch and owner of the last accepted
-- claim before it, and begins at the version that its aggregate has; so a row that is there twice counts once. The accepted claim of an
-- epoch is the first one of that epoch. What an event of a batch has of its own (contexts) goes before what the batch has.
-- A transaction is one row with a part for each of its aggregates, which is looked at as a commit: its owner wrote it where all of
-- them fit, and of what a term's owner wrote only a second copy doesn't count. So its parts count together, or none does.
CREATE OR REPLACE VIEW statefold_events AS
WITH
    -- An integer past 64 bits is written as a double (1…0e0): with it as it is the JSON type takes nothing of the whole text. Texts,
    -- other numbers and what is between them stay.
    json -> if(match(json, '[0-9]{19}'), arrayStringConcat(arrayMap(
        token -> if(match(token, '^-?[0-9]{19,308}$') AND (length(token) > 20 OR toInt128OrZero(token) NOT BETWEEN -9223372036854775808 AND 18446744073709551615), concat(token, 'e0'), token),
        extractAll(json, '"(?:[^"\\\\]|(?s:\\\\.))*"|-?[0-9]+(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|[^"0-9-]+|-')
    )), json) AS readable,
terms AS
(
    SELECT topic, kafka_partition, epoch, owner, claimed_at,
        -- By any later epoch, not the next one: a claim that landed behind a higher one is void, and ends nobody's term.
        ifNull(min(toNullable(claimed_at)) OVER (PARTITION BY topic, kafka_partition ORDER BY epoch ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), toUInt64(18446744073709551615)) AS ended_at
    FROM
    (
        SELECT topic, kafka_partition, epoch, argMin(owner, log_offset) AS owner, min(log_offset) AS claimed_at
        FROM statefold_events_landed WHERE claim_rules IS NOT NULL GROUP BY topic, kafka_partition, epoch
    )
),
written AS
(
    SELECT topic, kafka_partition, log_offset, epoch, owner, aggregate_type, aggregate_id, base_version, timestamp, correlation_id, causation_id, metadata, events, contexts
    FROM statefold_events_landed WHERE aggregate_id != ''
    UNION ALL
    SELECT topic, kafka_partition, log_offset, epoch, owner, part.aggregateType, part.aggregateId, part.baseVersion, transaction_timestamp, transaction_correlation_id, transaction_causation_id, transaction_metadata, part.events, part.contexts
    FROM statefold_events_landed ARRAY JOIN parts AS part
),
commits AS
(
    SELECT topic, kafka_partition, log_offset, aggregate_type, aggregate_id, base_version, timestamp, correlation_id, causation_id, metadata, events, contexts,
        max(base_version + length(events)) OVER (PARTITION BY topic, kafka_partition, aggregate_id ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
    FROM written AS landed
    INNER JOIN terms ON landed.topic = terms.topic AND landed.kafka_partition = terms.kafka_partition AND landed.epoch = terms.epoch AND landed.owner = terms.owner
    WHERE log_offset > claimed_at AND log_offset < ended_at
)
SELECT
    splitByChar('_', splitByChar('.', topic)[-2])[1] AS tenant,
    aggregate_type,
    aggregate_id,
    base_version + number AS version,
    UUIDNumToString(toFixedString(event.1, 16)) AS event_id,
    event.2 AS event_type,
    timestamp,
    coalesce(contexts[number].1, commits.correlation_id, '') AS correlation_id,
    coalesce(contexts[number].2, commits.causation_id, '') AS causation_id,
    JSONExtract(readable(event.3), 'JSON(max_dynamic_paths = 256)') AS data,
    JSONExtract(readable(coalesce(contexts[number].3, commits.metadata, '')), 'JSON(max_dynamic_paths = 256)') AS metadata,
    event.3 AS data_raw,
    coalesce(contexts[number].3, commits.metadata) AS metadata_raw,
    log_offset,
    topic
FROM commits
ARRAY JOIN events AS event, arrayEnumerate(events) AS number
WHERE base_version = reached
