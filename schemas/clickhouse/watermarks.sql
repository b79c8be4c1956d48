-- How far the log is in the tables: everything below `log_offset` of the tenant's stream is. Read with max(log_offset).
CREATE TABLE IF NOT EXISTS watermarks
(
    tenant     LowCardinality(String),
    stream     LowCardinality(String),
    log_offset UInt64,
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(log_offset)
ORDER BY (tenant, stream)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
