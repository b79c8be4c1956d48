import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Erasures, type ErasuresOptions } from '../../src/aggregates/erasures.js';
import { systemClock } from '../../src/core/clock.js';
import { silentLogger } from '../../src/core/logger.js';
import { until } from '../support/service.js';

const MIB = 1024 * 1024;

test('an erasure that waits until it may write more ends when its partition is closed', async (t) => {
  const event = { aggregateType: 't', baseVersion: 0, events: [] };
  const value = Buffer.alloc(100 * MIB);
  let redacted = 0;
  const log = {
    refresh: () => Promise.resolve(),
    redactedOf: () => [],
    erasedFrom: () => Promise.resolve(new Map()),
    readAt: (_: unknown, offsets: readonly number[]) =>
      Promise.resolve({ records: offsets.map((offset) => ({ offset, key: value, timestamp: 0, value })), end: 100 }),
    redact: () => Promise.resolve(redacted++),
    isRedactedOf: () => true,
  };
  const erasures = new Erasures({
    log,
    ref: { topic: 'events', partition: 0 },
    codec: {
      decode: () => ({
        fence: {},
        body: {
          kind: 'Transaction',
          value: { parts: ['erased', 'other'].map((aggregateId) => ({ ...event, aggregateId })) },
        },
      }),
      encode: () => Buffer.alloc(0),
    },
    tables: { voids: () => [], recordsOf: () => [1, 2], erasure: () => ({ status: 'erasing' }) },
    clock: systemClock,
    partition: { owned: true, caughtUpAsOwner: () => Promise.resolve(), propose: () => assert.fail('it is not over') },
    logger: silentLogger,
  } as unknown as ErasuresOptions);
  // What it waits for holds no process up.
  const alive = setInterval(() => undefined, 1000);
  t.after(() => clearInterval(alive));
  erasures.straggled('erased');
  await until(() => redacted === 2);
  // So that it has come to wait: for half a minute, by now.
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  const began = performance.now();
  await erasures.close();
  assert.ok(performance.now() - began < 5_000);
});
