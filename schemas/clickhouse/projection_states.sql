-- The current state of every key of every projection.
CREATE TABLE IF NOT EXISTS projection_states
(
    tenant        LowCardinality(String),
    projection_id LowCardinality(String),
    class_name    LowCardinality(String),
    key           String,
    state         JSON(max_dynamic_paths = 256) DEFAULT JSONExtract(ifNull(state_raw, ''), 'JSON(max_dynamic_paths = 256)'),
    state_raw     Nullable(String) CODEC(ZSTD(1)),
    sequence      UInt64,
    last_modified DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(sequence)
ORDER BY (tenant, projection_id, class_name, key)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
