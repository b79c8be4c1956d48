import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { findProjectRoot } from '../../src/config/project-root.js';
import type { NewEvent } from '../../src/core/event.js';
import { uuidText } from '../../src/core/ids.js';
import type { CommitValue, Fence } from '../../src/core/records.js';
import { eventBytes, writeEventLine } from '../../src/feed/event-record.js';
import { positionOfPlace, type PositionedEvent } from '../../src/feed/feed-item.js';
import { commitInput } from '../../src/feed/inputs.js';
import { LineBuffer } from '../../src/feed/line-buffer.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { storedCommit } from '../../src/log/codec/commit-of-view.js';
import { feedOf, ListedInputs } from '../support/listed-inputs.js';

const name = fc.oneof(fc.string({ minLength: 1 }), fc.string({ minLength: 1, unit: 'binary' }), fc.constant('order-1'));
const json = fc
  .tuple(fc.jsonValue(), fc.constantFrom(undefined, '\n', '\r\n  '))
  .map(([value, space]) => Buffer.from(JSON.stringify({ value }, null, space)));
const event: fc.Arbitrary<PositionedEvent> = fc.record({
  position: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  eventId: fc.uuid(),
  aggregateId: name,
  aggregateType: fc.constantFrom('order', 'account'),
  eventType: name,
  version: fc.integer({ min: 1 }),
  timestamp: fc.integer({ min: 0, max: 4e12 }),
  data: json,
  correlationId: fc.option(name, { nil: undefined }),
  causationId: fc.option(name, { nil: undefined }),
  metadata: fc.option(json, { nil: undefined }),
});

test('a line that is written is the line that is kept, byte for byte', () => {
  const lines = new LineBuffer();
  fc.assert(
    fc.property(fc.array(event, { minLength: 1 }), (events) => {
      for (const one of events) assert.equal(writeEventLine(one, lines), true);
      const kept = Buffer.concat(events.map((one) => eventBytes(one).line));
      assert.equal(lines.take().toString(), kept.toString());
    }),
  );
});

const FENCE: Fence = { epoch: 1, owner: 'w', recordId: 'w:2', expectedOffset: 1, previous: 'w:1' };
const contextOf = ({ correlationId, causationId, metadata }: Omit<CommitValue, 'events'>): Partial<NewEvent> => ({
  correlationId: correlationId ?? undefined,
  causationId: causationId ?? undefined,
  metadata: metadata ?? undefined,
});

test('a line that is written from the record of its commit says what the event says', () => {
  const codec = loadCodecs(join(findProjectRoot(), 'schemas', 'avro')).events;
  const own = fc.record({ correlationId: name, causationId: name, metadata: json }, { requiredKeys: [] });
  const one = fc
    .tuple(fc.uint8Array({ minLength: 16, maxLength: 16 }), name, json, fc.oneof(fc.constant({}), own))
    .map(([eventId, eventType, data, its]) => ({ eventId: Buffer.from(eventId), eventType, data, ...its }));
  const values: fc.Arbitrary<CommitValue> = fc.record({
    commandId: name,
    keyed: fc.boolean(),
    requestHash: fc.constant(Buffer.alloc(0)),
    aggregateId: name,
    aggregateType: fc.constantFrom('order', 'account'),
    baseVersion: fc.nat(),
    timestamp: fc.integer({ min: 0, max: 4e12 }),
    correlationId: fc.option(name),
    causationId: fc.option(name),
    metadata: fc.option(json),
    events: fc.array(one, { minLength: 1, maxLength: 4 }),
  });
  const lines = new LineBuffer();
  fc.assert(
    fc.property(fc.array(values, { minLength: 1, maxLength: 4 }), fc.nat(3), (commits, first) => {
      const inputs = new ListedInputs(Infinity);
      for (const value of commits) {
        const body = codec.decodeBody(codec.encode(FENCE, { kind: 'Commit', value }));
        assert.ok(body?.kind === 'Commit');
        inputs.records.push(commitInput(storedCommit(inputs.head, body.value)));
      }
      const { items } = feedOf(inputs).recent(1 + first, {}) ?? assert.fail();
      for (const item of items) assert.equal(writeEventLine(item, lines), true);
      const told = commits.flatMap(({ events, ...value }, place) =>
        events.map(({ eventId, eventType, data, ...its }, i) => {
          const { correlationId, causationId, metadata } = { ...contextOf(value), ...its };
          return eventBytes({
            position: positionOfPlace(place, i),
            eventId: uuidText(eventId),
            aggregateId: value.aggregateId,
            aggregateType: value.aggregateType,
            eventType,
            data,
            version: value.baseVersion + i + 1,
            timestamp: value.timestamp,
            correlationId,
            causationId,
            metadata,
          }).line;
        }),
      );
      const skipped = Math.min(first, commits[0]?.events.length ?? 0);
      assert.equal(lines.take().toString(), Buffer.concat(told.slice(skipped)).toString());
    }),
  );
});

test('a record says what the event has, its data and metadata as they were sent', () => {
  fc.assert(
    fc.property(event, ({ data, metadata, timestamp, ...others }) => {
      const { record } = eventBytes({ ...others, timestamp, data, metadata });
      const valueOf = (json: Buffer | undefined): unknown => json && (JSON.parse(json.toString()) as unknown);
      const told = { ...others, timestamp: new Date(timestamp).toISOString(), data: valueOf(data) };
      assert.deepEqual(
        JSON.parse(record.toString()),
        JSON.parse(JSON.stringify({ ...told, metadata: valueOf(metadata) })),
      );
      for (const sent of metadata === undefined ? [data] : [data, metadata]) assert.ok(record.includes(sent));
    }),
  );
});

test('an event of the feed that is asked for again goes to many: it is encoded once, and not written', () => {
  const listed = new ListedInputs(Infinity);
  listed.commit(1);
  const [item] = feedOf(listed).recent(1, {})?.items ?? [];
  assert.ok(item);
  const lines = new LineBuffer();
  assert.deepEqual(
    Array.from({ length: 3 }, () => writeEventLine(item, lines)),
    [true, false, false],
  );
  const { line } = eventBytes(item);
  assert.equal(lines.take().toString(), line.toString());
  assert.equal(eventBytes(item).line, line);
});

test('an event that was encoded, and an erasure, are not written', () => {
  const listed = new ListedInputs(Infinity);
  listed.commit(1);
  const [item] = feedOf(listed).recent(1, {})?.items ?? [];
  assert.ok(item);
  eventBytes(item);
  const lines = new LineBuffer();
  const erasure = { position: 7, erased: true, aggregateId: 'a', aggregateType: 't', timestamp: 1, reason: undefined };
  for (const one of [item, { ...erasure, erased: true as const }]) assert.equal(writeEventLine(one, lines), false);
  assert.equal(lines.length, 0);
});
