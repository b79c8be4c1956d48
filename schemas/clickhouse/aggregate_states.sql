-- The current state of every aggregate whose type has a reducer. `state_raw` is null where the reducer gave none.
CREATE TABLE IF NOT EXISTS aggregate_states
(
    tenant         LowCardinality(String),
    aggregate_type LowCardinality(String),
    aggregate_id   String,
    version        UInt64,
    state          JSON(max_dynamic_paths = 256) DEFAULT JSONExtract(ifNull(state_raw, ''), 'JSON(max_dynamic_paths = 256)'),
    state_raw      Nullable(String) CODEC(ZSTD(1)),
    last_modified  DateTime64(3, 'UTC'),
    log_offset     UInt64
)
ENGINE = ReplacingMergeTree(log_offset)
ORDER BY (tenant, aggregate_type, aggregate_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
