-- Every change of a projection's state, as subscribers got it.
CREATE TABLE IF NOT EXISTS notifications
(
    tenant         LowCardinality(String),
    projection_id  LowCardinality(String),
    sequence       UInt64 CODEC(Delta, ZSTD(1)),
    class_name     LowCardinality(String),
    key            String,
    aggregate_id   String,
    aggregate_type LowCardinality(String),
    version        UInt64,
    event_id       String CODEC(ZSTD(1)),
    cause          LowCardinality(String),
    state          JSON(max_dynamic_paths = 256) DEFAULT JSONExtract(ifNull(state_raw, ''), 'JSON(max_dynamic_paths = 256)'),
    state_raw      Nullable(String) CODEC(ZSTD(1)),
    last_modified  DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_time last_modified TYPE minmax
)
ENGINE = ReplacingMergeTree(sequence)
ORDER BY (tenant, projection_id, sequence)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
