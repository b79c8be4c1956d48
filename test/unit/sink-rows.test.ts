import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import fc from 'fast-check';
import { findProjectRoot } from '../../src/config/project-root.js';
import type { CommitValue } from '../../src/core/records.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { storedCommit } from '../../src/log/codec/commit-of-view.js';
import { encodeBlock } from '../../src/read-store/clickhouse/row-binary.js';
import { blocksOf, Rows } from '../../src/read-store/sink-rows.js';

const codec = loadCodecs(join(findProjectRoot(), 'schemas', 'avro')).events;
const UUID = '0192f4a0-7b1c-7def-8123-456789abcdef';
const FENCE = { epoch: 1, owner: UUID, recordId: UUID, expectedOffset: 7, previous: UUID };
const text = fc.string({ unit: fc.constantFrom('a', '€', '𝄞', 'é'), maxLength: 40 });
const json = fc.json({ maxDepth: 2 }).map((of) => Buffer.from(of));
const nullable = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(of, { nil: null });
const event = fc.record({
  eventId: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((of) => Buffer.from(of)),
  eventType: text,
  data: json,
});
const contexts = { correlationId: text, causationId: text, metadata: json };
const SOME = { minLength: 1, maxLength: 8 };
const eventInContext = fc
  .tuple(event, fc.record(contexts, { requiredKeys: [] }))
  .map(([plain, own]) => (Object.keys(own).length === 0 ? plain : { ...plain, ...own }));
const commit: fc.Arbitrary<CommitValue> = fc.record({
  commandId: text,
  keyed: fc.boolean(),
  requestHash: fc.constant(Buffer.alloc(32, 7)),
  aggregateId: text,
  aggregateType: text,
  baseVersion: fc.nat(),
  timestamp: fc.nat(),
  correlationId: nullable(text),
  causationId: nullable(text),
  metadata: nullable(json),
  events: fc.oneof(fc.array(event, SOME), fc.array(eventInContext, SOME)),
});

/** As they come to ClickHouse, and what they are reckoned with. */
async function rowsOf(value: CommitValue): Promise<{ readonly bytes: number; readonly written: string }> {
  const rows = new Rows();
  await rows.addCommits('a tenant', [storedCommit(7, value)]);
  const [block] = blocksOf([rows]);
  assert.equal(block?.rows.length, value.events.length);
  return { bytes: rows.bytes, written: (await encodeBlock(block)).bytes.toString('hex') };
}

test('rows of events that lie in their record are those of the events made from it', () =>
  fc.assert(
    fc.asyncProperty(commit, async (value) => {
      const body = codec.decode(codec.encode(FENCE, { kind: 'Commit', value }))?.body;
      assert(body?.kind === 'Commit');
      assert.deepEqual(await rowsOf(body.value), await rowsOf(value));
    }),
  ));
