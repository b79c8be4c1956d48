// Lines of a bulk that share a record: how many go in one, and are given to the tenant at once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AggregateHome } from '../../src/aggregates/aggregates.js';
import { background } from '../../src/core/background.js';
import type { TransactionCommand } from '../../src/core/event.js';
import { Slot } from '../../src/http/bulk/bulk-answers.js';
import { BulkItem } from '../../src/http/bulk/bulk-item.js';
import { BulkLane, type LaneHost } from '../../src/http/bulk/bulk-lane.js';

const LINES = 1000;

/** How many lines each record of a stream has, in the order in which they are given to the tenant; half of them are of one aggregate. */
function records(): readonly number[] {
  const sizes: number[] = [];
  const home = {
    transact: ({ appends }: TransactionCommand) => {
      sizes.push(appends.reduce((sum, { events }) => sum + events.length, 0));
      return new Promise(() => undefined);
    },
  } as unknown as AggregateHome;
  const absent = (): never => assert.fail('nothing is answered');
  const host: LaneHost = {
    home: () => home,
    ...{ relayTo: absent, answer: absent, stored: absent, refuse: absent, passBack: absent },
    together: true,
    passesBack: false,
  };
  const lane = new BulkLane('slot', { ownerOf: () => 'self', changed: () => Promise.resolve() }, host);
  const event = { eventType: 'Made', data: Buffer.from('{}') };
  for (let line = 1; line <= LINES; line++) {
    const body = {
      ...{
        aggregateId: line % 2 === 0 ? 'one' : `a-${line}`,
        aggregateType: undefined,
        expectedVersion: 'any' as const,
      },
      ...{ correlationId: undefined, causationId: undefined, metadata: undefined, idempotencyKey: undefined },
      ...{ events: [event], keyless: Buffer.alloc(0) },
    };
    const sent = lane.send(new BulkItem(new Slot(line), Buffer.from('{}'), body, undefined, Infinity));
    // Those behind wait for what was given to the tenant.
    if (sent instanceof Promise || sizes.length > 0) break;
  }
  return sizes;
}

test('lines share few large records while their tenant is alone', () => {
  const sizes = records();
  assert.equal(sizes[0], 501, 'those of one aggregate are in one record');
  assert.equal(
    sizes.reduce((sum, lines) => sum + lines, 0),
    1000,
  );
});

test('they share small ones, and few are given to the tenant at once, while others ask', () => {
  background.asked('loud');
  background.asked('calm');
  const sizes = records();
  assert.equal(
    sizes.reduce((sum, lines) => sum + lines, 0),
    125,
  );
  assert.deepEqual(sizes.slice(0, 1), [63]);
});
