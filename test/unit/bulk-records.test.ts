// Lines of a bulk that share a record: how many go in one, and are given to the tenant at once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AggregateHome } from '../../src/aggregates/aggregates.js';
import { background } from '../../src/core/background.js';
import { OfOneEventError } from '../../src/core/errors.js';
import type { AppendCommand, TransactionCommand } from '../../src/core/event.js';
import { Slot } from '../../src/http/bulk/bulk-answers.js';
import { BulkItem } from '../../src/http/bulk/bulk-item.js';
import { BulkLane, type LaneHost } from '../../src/http/bulk/bulk-lane.js';

const LINES = 1000;

const GATEWAY = { ownerOf: () => 'self' as const, changed: () => Promise.resolve() };

function hostOf(home: object): LaneHost {
  const absent = (): never => assert.fail('nothing is answered');
  return {
    home: () => home as AggregateHome,
    ...{ relayTo: absent, answer: absent, stored: absent, refuse: absent, passBack: absent },
    together: true,
    passesBack: false,
  };
}

function itemOf(line: number, aggregateId: string): BulkItem {
  const body = {
    ...{ aggregateId, aggregateType: undefined, expectedVersion: 'any' as const },
    ...{ correlationId: undefined, causationId: undefined, metadata: undefined, idempotencyKey: undefined },
    ...{ events: [{ eventType: 'Made', data: Buffer.from('{}') }], keyless: Buffer.alloc(0) },
  };
  return new BulkItem(new Slot(line), Buffer.from('{}'), body, undefined, Infinity);
}

/** How many lines each record of a stream has, in the order in which they are given to the tenant. */
function records(aggregateOf: (line: number) => string): readonly number[] {
  const sizes: number[] = [];
  const host = hostOf({
    transact: ({ appends }: TransactionCommand) => {
      sizes.push(appends.reduce((sum, { events }) => sum + events.length, 0));
      return new Promise(() => undefined);
    },
  });
  const lane = new BulkLane('slot', GATEWAY, host);
  for (let line = 1; line <= LINES; line++) {
    const sent = lane.send(itemOf(line, aggregateOf(line)));
    // Those behind wait for what was given to the tenant.
    if (sent instanceof Promise || sizes.length > 0) break;
  }
  return sizes;
}

test('what is of one event alone does not refuse the lines that share its record', async () => {
  const appended: string[] = [];
  const refused: unknown[] = [];
  const tried = new Promise<void>((resolve) => {
    const host = hostOf({
      transact: () => Promise.reject(new OfOneEventError('RATE_LIMITED', 'the check of a large event has to wait')),
      append: ({ aggregateId }: AppendCommand) => {
        appended.push(aggregateId);
        if (appended.length === 3) resolve();
        return new Promise(() => undefined);
      },
    });
    const lane = new BulkLane('slot', GATEWAY, { ...host, refuse: (_, error) => void refused.push(error) });
    for (let line = 1; line <= 3; line++) void lane.send(itemOf(line, `a-${line}`));
    void lane.flush();
  });
  await tried;
  assert.deepEqual([appended, refused], [['a-1', 'a-2', 'a-3'], []]);
});

const sum = (sizes: readonly number[]): number => sizes.reduce((all, lines) => all + lines, 0);
const halfOfOne = (line: number): string => (line % 2 === 0 ? 'one' : `a-${line}`);

test('lines share few large records while their tenant is alone', () => {
  const sizes = records(halfOfOne);
  assert.deepEqual([sizes[0], sum(sizes)], [501, 1000], 'those of one aggregate are in one record');
});

test('they share small ones, and half as many are given to the tenant at once, while others ask', () => {
  background.asked('loud');
  background.asked('calm');
  const sizes = records((line) => `a-${line}`);
  assert.deepEqual([sizes[0], sum(sizes)], [63, 500]);
});
