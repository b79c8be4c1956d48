import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventsWriter } from '../../src/aggregates/events-writer.js';
import { PendingTransaction, transactionDraftOf, type Accepted } from '../../src/aggregates/pending-writes.js';
import { UNBOUNDED } from '../../src/core/budget.js';
import { systemClock } from '../../src/core/clock.js';
import type { StoredCommit, TransactionCommit } from '../../src/core/event.js';
import { EMPTY_FENCE } from '../../src/core/fence.js';
import { silentLogger } from '../../src/core/logger.js';
import { ERASED_BASE } from '../../src/core/records.js';
import type { Log } from '../../src/log/log.js';
import { codecs } from '../support/ground.js';
import { localTables } from '../support/local-tables.js';

test('a transaction of ours that is read back with an aggregate taken out is told without it', (t) => {
  const told: StoredCommit[] = [];
  const writer = new EventsWriter({
    // Nothing is read or written here.
    log: { maxAppendBytes: 1024 * 1024 } as Log,
    ref: { topic: 'events', partition: 0 },
    partitionCount: 1,
    codec: codecs.events,
    owner: 'owner',
    logger: silentLogger,
    tables: localTables(t),
    from: EMPTY_FENCE,
    tailBytes: 0,
    clock: systemClock,
    window: 100,
    limits: { queued: 10, produceBytes: 1024, produceRecords: 10 },
    strictReads: false,
    listener: {
      committed: (commit) => void told.push(commit),
      controlled: assert.fail,
      straggled: assert.fail,
      // As a projection does that foresees what is on its way.
      underWay: (_, commits) => void commits(10),
      stopped: assert.fail,
    },
  });
  let answered: Accepted<TransactionCommit> | undefined;
  const pending = new PendingTransaction(
    {
      commandId: 'command',
      keyed: false,
      requestHash: Buffer.alloc(0),
      correlationId: undefined,
      causationId: undefined,
      metadata: undefined,
      appends: ['kept', 'erased'].map((aggregateId) => ({
        ...{ aggregateId, aggregateType: 'account', expectedVersion: 'any' },
        events: [{ eventType: 'Opened', data: Buffer.from(`{"of":"${aggregateId}"}`) }],
      })),
    },
    1,
    UNBOUNDED.tenant('').hold('appends'),
    (accepted) => (answered = accepted),
    assert.fail,
  );
  const parts = [0, 0].map((baseVersion) => ({ aggregateType: 'account', baseVersion }));
  const draft = transactionDraftOf(pending, { kind: 'write', parts, timestamp: 1 });
  const { value } = draft.body;
  writer.underWay([draft], 0);
  // Another process took it over meanwhile, erased the aggregate, and took its events out.
  const [kept, erased] = value.parts;
  assert.ok(kept !== undefined && erased !== undefined);
  const events = [{ eventId: Buffer.alloc(16), eventType: '', data: Buffer.from('{}') }];
  const redacted = { ...value, parts: [kept, { ...erased, baseVersion: ERASED_BASE, events }] };
  writer.fold({ offset: 0, accepted: true, body: { kind: 'Transaction', value: redacted } }, draft);
  assert.equal(answered?.commit, told[0]);
  assert.deepEqual(
    answered?.commit.parts.map(({ aggregateId }) => aggregateId),
    ['kept'],
  );
});
