# Kafka Connect with Confluent's Avro converter (part of the image) and ClickHouse's sink connector.
FROM confluentinc/cp-kafka-connect:7.9.6
RUN confluent-hub install --no-prompt clickhouse/clickhouse-kafka-connect:v1.5.0
