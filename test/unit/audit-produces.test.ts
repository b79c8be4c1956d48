// How records of the audit log are put into produces while clients of several tenants are about.
import assert from 'node:assert/strict';
import test from 'node:test';
import { AuditLog } from '../../src/audit/audit-log.js';
import { background } from '../../src/core/background.js';
import { silentLogger } from '../../src/core/logger.js';
import type { Log, NewRecord } from '../../src/log/log.js';
import { someTurns } from '../support/loop-turns.js';

const begun = (n: number) => ({
  tenantId: 'acme',
  tenantCreatedAt: undefined,
  keyId: 'key-1',
  keyName: 'ci',
  action: 'reducer.delete',
  object: {},
  requestId: `q-${n}`,
});

test('what came during a produce rests, and goes in one with what came meanwhile; what came when none was under way does not', async (t) => {
  let isShared = true;
  t.mock.getter(background, 'isShared', () => isShared);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 1_000;
  t.mock.method(performance, 'now', () => now);
  const produces: number[] = [];
  const log = {
    maxAppendBytes: 1024 * 1024,
    ensureTopics: () => Promise.resolve(),
    append: (_: unknown, records: readonly NewRecord[]) =>
      Promise.resolve({ firstOffset: produces.push(records.length) }),
  } as unknown as Log;
  const audit = await AuditLog.open({ log, retentionMs: 1, logger: silentLogger });

  const first = audit.begin(begun(0));
  assert.deepEqual(produces, [1], 'it is written at once');
  const others = [1, 2, 3].map((n) => audit.begin(begun(n)));
  await first;
  await someTurns();
  others.push(audit.begin(begun(4)));
  await someTurns();
  assert.deepEqual(produces, [1]);
  now += 10;
  t.mock.timers.tick(10);
  await Promise.all(others);
  assert.deepEqual(produces, [1, 4]);

  await audit.begin(begun(5));
  assert.deepEqual(produces, [1, 4, 1], 'none was under way');

  isShared = false;
  await Promise.all([6, 7, 8].map((n) => audit.begin(begun(n))));
  assert.deepEqual(produces, [1, 4, 1, 1, 2], 'a tenant alone waits for no pause');
});
