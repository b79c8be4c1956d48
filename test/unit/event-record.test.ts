import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { eventBytes, writeEventLine } from '../../src/feed/event-record.js';
import type { PositionedEvent } from '../../src/feed/events.js';
import { LineBuffer } from '../../src/feed/line-buffer.js';
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
