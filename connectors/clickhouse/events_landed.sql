-- The records of tenants' events topics as they are, void ones too; a row that Connect delivered twice is one after merges. Read the view.
CREATE TABLE IF NOT EXISTS statefold_events_landed
(
    topic           LowCardinality(String),
    kafka_partition UInt32,
    log_offset      UInt64,
    log_time        DateTime64(3, 'UTC'),
    epoch           UInt64,
    owner           LowCardinality(String),
    claim_rules     Nullable(Int32),
    aggregate_type  LowCardinality(String) DEFAULT '',
    aggregate_id    String DEFAULT '',
    base_version    UInt64 DEFAULT 0,
    timestamp       DateTime64(3, 'UTC') DEFAULT toDateTime64(0, 3, 'UTC'),
    correlation_id  Nullable(String),
    causation_id    Nullable(String),
    metadata        Nullable(String),
    events          Array(Tuple(eventId String, eventType String, data String)) DEFAULT [],
    contexts        Array(Tuple(correlationId Nullable(String), causationId Nullable(String), metadata Nullable(String))) DEFAULT [],
    transaction_timestamp      DateTime64(3, 'UTC') DEFAULT toDateTime64(0, 3, 'UTC'),
    transaction_correlation_id Nullable(String),
    transaction_causation_id   Nullable(String),
    transaction_metadata       Nullable(String),
    parts           Array(Tuple(aggregateId String, aggregateType String, baseVersion UInt64, events Array(Tuple(eventId String, eventType String, data String)), contexts Array(Tuple(correlationId Nullable(String), causationId Nullable(String), metadata Nullable(String))))) DEFAULT []
)
ENGINE = ReplacingMergeTree
ORDER BY (topic, kafka_partition, aggregate_id, log_offset)
