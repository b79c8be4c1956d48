// Invariants 9, 11, 12 where both are gone: the local store, and by retention the oldest changes.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { taskOptions } from '../../src/app/open-tasks.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { uuidv7 } from '../../src/core/ids.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { LocalStore } from '../../src/store/local-store.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { appendOf } from '../support/append-command.js';
import { bindAll, codecs, compiled, openRunners, testGround } from '../support/ground.js';
import { temporaryDirectory, until } from '../support/service.js';

const TALLY = `public record Tally(long Total);
public class TallyProjection : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.AggregateId;
    public Tally? Apply(Tally? s, Event e) => new((s?.Total ?? 0) + 1);
}`;
const DAY = 24 * 3600 * 1000;
const RETENTION = 7 * DAY;

async function world(t: TestContext) {
  const directory = temporaryDirectory(t);
  const clock = { at: Date.parse('2026-01-01T00:00:00Z'), now: (): number => clock.at };
  const log = new LmdbLog({ path: join(directory, 'log'), now: () => clock.at });
  const ground = testGround({
    directory,
    clock,
    env: { IDEMPOTENCY_WINDOW: '1000', CHANGES_RETENTION_MS: String(RETENTION) },
  });
  ground.shutdown.add('log', () => log.close());
  const codeHost = openRunners(ground);
  t.after(() => ground.close());
  const [assembly] = await compiled(t, ['projection', TALLY]);
  assert.ok(assembly !== undefined);
  const definitions = {
    bindAll: bindAll(),
    projections: () => [{ projectionId: 'p', revision: 1, artefactId: 'a', classNames: ['TallyProjection'] }],
    projectionExists: () => true,
    assembly: () => Promise.resolve(assembly),
  };
  const open = async (): Promise<{ task: TenantTask; close(): Promise<void> }> => {
    const store = new LocalStore({ path: join(directory, 'store'), logger: silentLogger });
    const task = new TenantTask({
      ...taskOptions({ ...ground, owner: uuidv7() }, { log, codecs, store }, codeHost, 'acme', definitions),
      onStopped: () => undefined,
    });
    await task.open();
    return { task, close: async () => (await task.close(), store.close()) };
  };
  return { log, clock, open, loseStore: () => rmSync(join(directory, 'store'), { recursive: true }) };
}

const append = (task: TenantTask, aggregateId: string): Promise<unknown> =>
  task.first.append(appendOf(aggregateId, 'Counted'));

const totals = async (task: TenantTask): Promise<Record<string, string>> => {
  const { states } = await task.projections.states({ projectionId: 'p', prefix: '', limit: 100, cursor: undefined });
  return Object.fromEntries(states.map(({ key, state }) => [key, String(state)]));
};

for (const kept of ['some', 'none'] as const)
  test(`a lost local store is folded again though retention took ${kept === 'some' ? 'the oldest' : 'all'} changes: same states, nothing notified twice`, async (t) => {
    const { log, clock, open, loseStore } = await world(t);
    const first = await open();
    for (let i = 0; i < 30; i++) await append(first.task, `a-${i % 3}`);
    await until(async () => (await totals(first.task))['a-2'] === '{"total":10}');
    clock.at += RETENTION + DAY;
    if (kept === 'some') await append(first.task, 'a-0');
    await until(async () => (await totals(first.task))['a-0'] === (kept === 'some' ? '{"total":11}' : '{"total":10}'));
    const before = await totals(first.task);
    await first.close();
    const reopened = await open(); // its claim is the youngest record of the changes
    await reopened.close();
    await log.clean();
    assert.ok(
      (await log.startOffset({ topic: 'statefold.acme.changes', partition: 0 })) > 0,
      'retention took the oldest changes',
    );
    loseStore();

    const again = await open();
    const end = await log.endOffset({ topic: 'statefold.acme.changes', partition: 0 });
    await until(() => again.task.projectionLag === 0);
    assert.deepEqual(await totals(again.task), before);
    assert.equal(
      await log.endOffset({ topic: 'statefold.acme.changes', partition: 0 }),
      end,
      'no change was written again',
    );
    await assert.rejects(
      Promise.resolve().then(() => again.task.changes.of('p').read(1, { items: 10 })),
      (error: unknown) => error instanceof StatefoldError && error.code === 'CURSOR_EXPIRED',
    );

    const head = again.task.changes.lastSequence();
    await append(again.task, 'a-1');
    await until(() => again.task.changes.lastSequence() > head);
    const [change, ...others] = (await again.task.changes.of('p').read(head + 1, { items: 10 })).items;
    assert.deepEqual([change?.key, String(change?.state), others.length], ['a-1', '{"total":11}', 0]);

    // A read store that is filled anew has them from the states.
    const { sink } = again.task;
    assert.equal(sink.changes.recent(0, {}), undefined);
    assert.ok((await sink.changes.start()) > 0);
    const told: [key: string, state: string][] = [];
    let pages = 0;
    for (let from: string | undefined; pages === 0 || from !== undefined; pages++) {
      const { states, next } = await sink.projectionStates(from, 1);
      for (const { key, state } of states) told.push([key, String(state)]);
      from = next;
    }
    assert.ok(pages >= 3);
    assert.deepEqual(told, Object.entries(await totals(again.task)));
    await again.close();
  });
