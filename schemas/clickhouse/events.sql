-- Every accepted event. `data` and `metadata` are for queries (data.amount); the `_raw` columns hold the bytes that were sent.
-- What ClickHouse's JSON type can't take (duplicate keys, numbers past a double) reads as {} in the JSON column; integers past 64 bits are doubles there.
CREATE TABLE IF NOT EXISTS events
(
    tenant         LowCardinality(String),
    aggregate_type LowCardinality(String),
    aggregate_id   String,
    version        UInt64 CODEC(Delta, ZSTD(1)),
    event_id       String CODEC(ZSTD(1)),
    event_type     LowCardinality(String),
    timestamp      DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    correlation_id String,
    causation_id   String,
    data           JSON(max_dynamic_paths = 256) DEFAULT JSONExtract(data_raw, 'JSON(max_dynamic_paths = 256)'),
    metadata       JSON(max_dynamic_paths = 256) DEFAULT JSONExtract(ifNull(metadata_raw, ''), 'JSON(max_dynamic_paths = 256)'),
    data_raw       String CODEC(ZSTD(1)),
    metadata_raw   Nullable(String) CODEC(ZSTD(1)),
    log_offset     UInt64 CODEC(Delta, ZSTD(1)),
    INDEX by_time timestamp TYPE minmax
)
ENGINE = ReplacingMergeTree(log_offset)
ORDER BY (tenant, aggregate_type, aggregate_id, version)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
