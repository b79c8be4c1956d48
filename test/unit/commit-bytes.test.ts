import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import fc from 'fast-check';
import { findProjectRoot } from '../../src/config/project-root.js';
import type { AppendCommand, NewEvent, TransactionCommand } from '../../src/core/event.js';
import { hasContext } from '../../src/core/event.js';
import { commitBytes, transactionBytes } from '../../src/log/codec/commit-bytes.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { appendBytes } from '../../src/log/log.js';

const codec = loadCodecs(join(findProjectRoot(), 'schemas', 'avro')).events;
const UUID = '0192f4a0-7b1c-7def-8123-456789abcdef';
/** Also of characters that have three bytes, and four. */
const text = (maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom('a', '€', '𝄞', 'é'), maxLength });
const bytes = fc.uint8Array({ maxLength: 300 }).map((of) => Buffer.from(of));
const absent = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(of, { nil: undefined });
const context = { correlationId: absent(text(128)), causationId: absent(text(128)), metadata: absent(bytes) };
const events: fc.Arbitrary<NewEvent[]> = fc.array(
  fc.record({ eventType: text(256), data: bytes, ...context }, { requiredKeys: ['eventType', 'data'] }),
  { minLength: 1, maxLength: 20 },
);

test('no record of a commit has more bytes than it was reckoned with', () => {
  fc.assert(
    fc.property(text(256), text(255), fc.record(context), events, (aggregateId, commandId, ofAll, ofEach) => {
      const command: AppendCommand = {
        commandId,
        keyed: true,
        requestHash: Buffer.alloc(32, 7),
        aggregateId,
        aggregateType: undefined,
        expectedVersion: 'any',
        ...ofAll,
        events: ofEach,
      };
      const value = codec.encode(
        { epoch: 2 ** 40, owner: UUID, recordId: UUID, expectedOffset: 2 ** 50, previous: UUID },
        {
          kind: 'Commit',
          value: {
            commandId,
            keyed: true,
            requestHash: command.requestHash,
            aggregateId,
            aggregateType: 't'.repeat(128),
            baseVersion: 2 ** 50,
            timestamp: 2 ** 50,
            correlationId: ofAll.correlationId ?? null,
            causationId: ofAll.causationId ?? null,
            metadata: ofAll.metadata ?? null,
            events: ofEach.map((event, i) => {
              const eventId = Buffer.alloc(16, i);
              return hasContext(event)
                ? { ...event, eventId }
                : { eventId, eventType: event.eventType, data: event.data };
            }),
          },
        },
      );
      const key = Buffer.from(`${aggregateId}@${2 ** 50}#${UUID}`);
      assert.ok(appendBytes([{ key, value }]) - appendBytes([]) <= commitBytes(command));
    }),
    { numRuns: 300 },
  );
});

test('nor has one of a transaction', () => {
  const appends = fc.array(fc.tuple(text(256), events), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(text(255), fc.record(context), appends, (commandId, ofAll, ofEach) => {
      const named = { commandId, keyed: true, requestHash: Buffer.alloc(32, 7) };
      const command: TransactionCommand = {
        ...named,
        ...ofAll,
        appends: ofEach.map(([aggregateId, of]) => ({
          aggregateId,
          aggregateType: undefined,
          expectedVersion: 'any',
          events: of,
        })),
      };
      const value = codec.encode(
        { epoch: 2 ** 40, owner: UUID, recordId: UUID, expectedOffset: 2 ** 50, previous: UUID },
        {
          kind: 'Transaction',
          value: {
            ...named,
            timestamp: 2 ** 50,
            correlationId: ofAll.correlationId ?? null,
            causationId: ofAll.causationId ?? null,
            metadata: ofAll.metadata ?? null,
            parts: ofEach.map(([aggregateId, of]) => ({
              aggregateId,
              aggregateType: 't'.repeat(128),
              baseVersion: 2 ** 50,
              events: of.map((event, i) => ({ ...event, eventId: Buffer.alloc(16, i) })),
            })),
          },
        },
      );
      const key = Buffer.from(`${ofEach[0]?.[0] ?? ''}@${2 ** 50}#${UUID}`);
      assert.ok(appendBytes([{ key, value }]) - appendBytes([]) <= transactionBytes(command));
    }),
    { numRuns: 200 },
  );
});
