-- The records of tenants' changes topics as they are, void ones too; a row that Connect delivered twice is one after merges. Read the view.
CREATE TABLE IF NOT EXISTS statefold_changes_landed
(
    topic           LowCardinality(String),
    kafka_partition UInt32,
    log_offset      UInt64,
    log_time        DateTime64(3, 'UTC'),
    epoch           UInt64,
    owner           LowCardinality(String),
    claim_rules     Nullable(Int32),
    projection_id   LowCardinality(String) DEFAULT '',
    revision        Int32 DEFAULT 0,
    class_name      LowCardinality(String) DEFAULT '',
    key             String DEFAULT '',
    input_offset    UInt64 DEFAULT 0,
    input_index     Int32 DEFAULT 0,
    event_id        String DEFAULT '',
    aggregate_type  LowCardinality(String) DEFAULT '',
    aggregate_id    String DEFAULT '',
    version         UInt64 DEFAULT 0,
    timestamp       DateTime64(3, 'UTC') DEFAULT toDateTime64(0, 3, 'UTC'),
    cause           Nullable(String),
    state           Nullable(String),
    fault           Nullable(String)
)
ENGINE = ReplacingMergeTree
ORDER BY (topic, kafka_partition, projection_id, log_offset)
