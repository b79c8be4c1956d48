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
      for (const one of events) writeEventLine(one, lines);
      const kept = Buffer.concat(events.map((one) => eventBytes(one).line));
      assert.equal(lines.take().toString(), kept.toString());
    }),
  );
});

test('an event of the feed that is asked for again is encoded once, for all who come then', () => {
  const listed = new ListedInputs(Infinity);
  listed.commit(1);
  const [item] = feedOf(listed).recent(1, {})?.items ?? [];
  assert.ok(item);
  const written = Array.from({ length: 3 }, () => {
    const lines = new LineBuffer();
    writeEventLine(item, lines);
    return lines.take().toString();
  });
  const { line } = eventBytes(item);
  assert.deepEqual(written, Array(3).fill(line.toString()));
  assert.equal(eventBytes(item).line, line);
});
