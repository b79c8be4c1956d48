// Invariants 1 to 3, 7 and 19: the local store is on a disk that is full, and the log is elsewhere. What can't be written stays in
// memory up to the budget; past it appends are refused with a retryable 503, reads go on, and when there is space again so do
// appends, with nothing lost.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { MemoryBudget } from '../../src/core/budget.js';
import { systemClock } from '../../src/core/clock.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { LocalStore } from '../../src/store/local-store.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { bindAll } from '../support/ground.js';
import { ROOT, temporaryDirectory, until } from '../support/service.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';

const MIB = 1024 * 1024;
const MEGABYTES = 160;
const TENANT = 't';
const BUDGET = { processBytes: 8 * MIB, tenantBytes: 4 * MIB };
const HOUR_MS = 3_600_000;
/** More than the budget takes: each append is some entries of the store. */
const MOST_APPENDS = 20_000;

interface Served {
  readonly task: TenantTask;
  readonly budget: MemoryBudget;
  close(): Promise<void>;
}

async function serve(t: TestContext, log: LmdbLog, path: string): Promise<Served> {
  const budget = new MemoryBudget(BUDGET);
  const store = new LocalStore({ path, logger: silentLogger, budget });
  const never = (): Promise<never> => Promise.reject(new Error('there is no code'));
  const task = new TenantTask({
    tenantId: TENANT,
    log,
    codecs: loadCodecs(join(ROOT, 'schemas', 'avro')),
    store,
    codeHost: {
      compile: never,
      runner: () => ({
        load: () => undefined,
        has: () => true,
        unload: () => undefined,
        fold: never,
        project: never,
        forget: () => undefined,
      }),
      dispose: () => Promise.resolve(),
      close: () => Promise.resolve(),
    },
    definitions: {
      bindAll: bindAll(),
      projections: () => [],
      projectionExists: () => false,
      assembly: never,
    },
    owner: randomUUID(),
    clock: systemClock,
    logger: silentLogger,
    idempotencyWindow: 100_000,
    changesRetentionMs: HOUR_MS,
    foldDeadlineMs: 1_000,
    tailBytes: MIB,
    budget: budget.tenant(TENANT),
    onStopped: (error) => assert.fail(error),
  });
  let closed = false;
  const close = async (): Promise<void> => {
    if (closed) return;
    closed = true;
    await task.close();
    await store.close();
  };
  t.after(close);
  await task.open();
  return { task, budget, close };
}

test('a full local disk beside the log bounds memory, refuses appends and recovers', async (t) => {
  const disk = smallDisk(t, MEGABYTES);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const first = await serve(t, log, join(disk, 'store'));
  const stored: string[] = [];
  const append = async ({ task }: Served, aggregateId: string): Promise<void> => {
    await task.first.append({
      commandId: randomUUID(),
      keyed: true,
      requestHash: Buffer.alloc(32),
      aggregateId,
      aggregateType: undefined,
      expectedVersion: 'none',
      events: [{ eventType: 'Happened', data: Buffer.from('{"of":"some length, as events are"}') }],
      correlationId: undefined,
      causationId: undefined,
      metadata: undefined,
    });
    stored.push(aggregateId);
  };
  await append(first, 'before-0');
  const balloon = join(disk, 'balloon');
  fill(balloon);
  let refusal: unknown;
  for (let i = 0; i < MOST_APPENDS && refusal === undefined; i += 50) {
    const results = await Promise.allSettled(Array.from({ length: 50 }, (_, k) => append(first, `full-${i + k}`)));
    refusal = results.find((result) => result.status === 'rejected')?.reason;
    assert.ok(first.budget.held() < BUDGET.tenantBytes, `${first.budget.held()} bytes are held`);
  }
  assert.ok(refusal instanceof StatefoldError, 'memory took all of it');
  assert.deepEqual([refusal.code, refusal.retryable, refusal.retryAfterSeconds], ['UNAVAILABLE', true, 5]);
  assert.match(refusal.message, /is its disk full\?/);
  assert.ok(stored.length > 100, `only ${stored.length} appends were taken`);
  assert.ok(first.budget.held('entries') > BUDGET.tenantBytes / 4);
  assert.ok(first.budget.refusals('entries', 'tenant') > 0);
  await assert.rejects(append(first, 'refused'), { code: 'UNAVAILABLE' });
  const versionOf = async ({ task }: Served, aggregateId: string): Promise<number> =>
    (
      await task.first.events({
        aggregateId,
        fromVersion: undefined,
        toVersion: undefined,
        limit: 10,
        direction: 'forward',
      })
    ).events.length;
  for (const aggregateId of [stored[0], stored.at(-1)]) assert.equal(await versionOf(first, aggregateId ?? ''), 1);
  await assert.rejects(versionOf(first, 'refused'), { code: 'NOT_FOUND' });

  // It is restarted while the disk is full: what the disk does not have is folded again, as far as memory may have it.
  await first.close();
  assert.equal(first.budget.held(), 0, 'what was held is given back');

  rmSync(balloon);
  const second = await serve(t, log, join(disk, 'store'));
  await append(second, 'after');
  fill(balloon);
  let refusals = 0;
  for (let i = 0; i < MOST_APPENDS && refusals === 0; i += 50)
    refusals = (
      await Promise.allSettled(Array.from({ length: 50 }, (_, k) => append(second, `again-${i + k}`)))
    ).filter(({ status }) => status === 'rejected').length;
  assert.ok(refusals > 0);
  rmSync(balloon);
  await until(() =>
    append(second, `recovered-${randomUUID()}`).then(
      () => true,
      () => false,
    ),
  );
  for (const aggregateId of stored) assert.equal(await versionOf(second, aggregateId), 1);
  const { aggregates } = await second.task.aggregates.list({ aggregateType: undefined, limit: 1e6, cursor: undefined });
  assert.equal(aggregates.length, stored.length, 'nothing was stored that was refused');
  await second.close();
  assert.equal(second.budget.held(), 0);
});
