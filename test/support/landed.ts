// What the definitions of connectors/ land of a record: for tests of the views over it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChangesBody, ClaimBody, CommitEventValue, EventsBody, Fence } from '../../src/core/records.js';
import { contextsOf, hasContexts, type EventContext } from '../../src/log/codec/commit-records.js';
import type { ClickHouseEndpoint } from '../../src/read-store/endpoint.js';
import { ROOT } from './service.js';
import { jsonLines } from './json-lines.js';

/** A row as Connect's JSON has it: bytes as base64, time stamps as milliseconds. Columns without a value are left out, or null. */
export type LandedRow = Readonly<Record<string, unknown>>;
export type Kind = 'events' | 'changes';

interface Place {
  readonly topic: string;
  readonly offset: number;
}

export function landedEvent(
  { topic, offset }: Place,
  record: { readonly fence: Fence; readonly body: EventsBody | ClaimBody },
): LandedRow {
  const { fence, body } = record;
  const row = { topic, kafka_partition: 0, log_offset: offset, log_time: 0, epoch: fence.epoch, owner: fence.owner };
  if (body.kind === 'Claim') return { ...row, claim_rules: body.value.rules };
  if (body.kind === 'Transaction')
    return {
      ...row,
      transaction_timestamp: body.value.timestamp,
      transaction_correlation_id: body.value.correlationId,
      transaction_causation_id: body.value.causationId,
      transaction_metadata: body.value.metadata?.toString() ?? null,
      parts: body.value.parts.map((part) => ({
        aggregateId: part.aggregateId,
        aggregateType: part.aggregateType,
        baseVersion: part.baseVersion,
        events: part.events.map(landedEventOf),
        contexts: hasContexts(part) ? contextsOf(part).map(landedContext) : [],
      })),
    };
  if (body.kind !== 'Commit') return row;
  const { aggregateType, aggregateId, baseVersion, timestamp, correlationId, causationId, metadata, events } =
    body.value;
  return {
    ...row,
    aggregate_type: aggregateType,
    aggregate_id: aggregateId,
    base_version: baseVersion,
    timestamp,
    correlation_id: correlationId,
    causation_id: causationId,
    metadata: metadata?.toString() ?? null,
    // Records of the first version of the schema have no such column.
    ...(hasContexts(body.value) && {
      contexts: contextsOf(body.value).map(landedContext),
    }),
    events: events.map(landedEventOf),
  };
}

const landedContext = ({ metadata, ...ids }: EventContext): object => ({
  ...ids,
  metadata: metadata?.toString() ?? null,
});

const landedEventOf = ({ eventId, eventType, data }: CommitEventValue): object => ({
  eventId: eventId.toString('base64'),
  eventType,
  data: data.toString(),
});

export function landedChange(
  { topic, offset }: Place,
  record: { readonly fence: Fence; readonly body: ChangesBody | ClaimBody },
): LandedRow {
  const { fence, body } = record;
  const row = { topic, kafka_partition: 0, log_offset: offset, log_time: 0, epoch: fence.epoch, owner: fence.owner };
  if (body.kind === 'Claim') return { ...row, claim_rules: body.value.rules };
  const {
    projectionId,
    revision,
    className,
    key,
    inputOffset,
    inputIndex,
    eventId,
    aggregateId,
    aggregateType,
    version,
    timestamp,
    cause,
    state,
    fault,
  } = body.value;
  return {
    ...row,
    projection_id: projectionId,
    revision,
    class_name: className,
    key,
    input_offset: inputOffset,
    input_index: inputIndex,
    event_id: eventId,
    aggregate_type: aggregateType,
    aggregate_id: aggregateId,
    version,
    timestamp,
    cause,
    state: state?.toString() ?? null,
    fault: fault?.toString() ?? null,
  };
}

/** One statement of ClickHouse's HTTP interface, with the rows of an INSERT. @throws with ClickHouse's message */
export async function clickHouse(
  { url, user, password, database }: ClickHouseEndpoint,
  sql: string,
  rows: readonly unknown[] = [],
): Promise<string> {
  const body = rows.map((row) => JSON.stringify(row)).join('\n');
  const response = await fetch(`${url}/?${new URLSearchParams({ database, query: sql }).toString()}`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` },
    body,
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${sql}: ${text}`);
  return text;
}

export async function select<T>(endpoint: ClickHouseEndpoint, sql: string): Promise<T[]> {
  const text = await clickHouse(endpoint, `${sql} FORMAT JSONEachRow`);
  return jsonLines(text);
}

const decoded = (events: string): string => `arrayMap(event -> (base64Decode(event.1), event.2, event.3), ${events})`;

/** Makes the tables and views of connectors/clickhouse, and a way in for rows of JSON: the connector itself writes bytes. */
export async function makeLandingTables(endpoint: ClickHouseEndpoint): Promise<void> {
  await clickHouse({ ...endpoint, database: 'default' }, `CREATE DATABASE IF NOT EXISTS ${endpoint.database}`);
  for (const file of ['events_landed', 'changes_landed', 'events', 'changes'])
    await clickHouse(endpoint, readFileSync(join(ROOT, 'connectors', 'clickhouse', `${file}.sql`), 'utf8'));
  for (const kind of ['events', 'changes'] satisfies Kind[]) {
    await clickHouse(endpoint, `CREATE TABLE json_${kind} AS statefold_${kind}_landed ENGINE = Null`);
    const columns =
      kind === 'events'
        ? `* REPLACE (${decoded('events')} AS events, arrayMap(part -> (part.1, part.2, part.3, ${decoded('part.4')}, part.5), parts) AS parts)`
        : '*';
    await clickHouse(
      endpoint,
      `CREATE MATERIALIZED VIEW json_${kind}_in TO statefold_${kind}_landed AS SELECT ${columns} FROM json_${kind}`,
    );
  }
}

export async function land(endpoint: ClickHouseEndpoint, kind: Kind, rows: readonly LandedRow[]): Promise<void> {
  // Milliseconds, as DateTime64(3) counts.
  const sql = `INSERT INTO json_${kind} SETTINGS date_time_input_format = 'basic', input_format_null_as_default = 1 FORMAT JSONEachRow`;
  if (rows.length > 0) await clickHouse(endpoint, sql, rows);
}
