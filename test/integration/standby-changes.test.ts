// The changes of a tenant where it is followed, for whoever notifies of it: those of the owner, through takeovers in both directions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Change } from '../../src/core/change.js';
import { pushedInto } from '../support/all-changes.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { LOGS } from '../support/two-logs.js';
import { appendAll, bank, Machine } from '../support/snapshot-world.js';
import { until } from '../support/service.js';

type Kind = 'memory' | 'the log';

/** Both tell the same of each cursor. `from`: where the standby has what is before its start. */
async function same(standby: TenantTask, owner: TenantTask, from: Kind): Promise<void> {
  await until(() => owner.projectionLag === 0);
  await standby.changes.caughtUp();
  const head = owner.changes.lastSequence();
  assert.equal(standby.changes.lastSequence(), head);
  assert.equal(await standby.changes.of('p').start(), await owner.changes.of('p').start());
  for (const after of [0, 1, Math.floor(head / 2), head - 1, head, head + 100]) {
    const asked = [after + 1, { items: 60 }] as const;
    const [its, said] = [await standby.changes.of('p').read(...asked), await owner.changes.of('p').read(...asked)];
    assert.deepEqual(its, said, `after ${after}`);
    if (after >= head) assert.equal(its.items.length, 0);
    else if (after === 0) assert.equal(its.items.length, 60);
    const recent = standby.changes.of('p').recent(...asked);
    assert.deepEqual(recent, recent === undefined ? undefined : said, `of the tail after ${after}`);
  }
  assert.equal(standby.changes.of('p').recent(1, { items: 1 }) === undefined, from === 'the log');
  assert.deepEqual((await standby.changes.of('another').read(1, { items: 10 })).items, []);
}

function heardBy(task: TenantTask): { readonly since: number; readonly sequences: readonly number[] } {
  const changes: Change[] = [];
  const since = task.changes.lastSequence();
  pushedInto(task, changes);
  return {
    since,
    get sequences() {
      return changes.map(({ sequence }) => sequence);
    },
  };
}

/** All sequences past a cursor, of every projection and with its faults. */
async function accepted(task: TenantTask, after: number): Promise<readonly number[]> {
  const sequences: number[] = [];
  for (let next = after + 1; ;) {
    const page = await task.sink.changes.read(next, { bytes: 1024 * 1024 });
    sequences.push(...page.items.map(({ sequence }) => sequence));
    if (page.end === next) return sequences;
    next = page.end;
  }
}

for (const { name, skip, open } of LOGS) {
  test(
    `on ${name}, 12, 13: a standby has the changes of the owner, from memory and from the log, and tells each once as it takes over and gives back`,
    { skip },
    async (t) => {
      const client = await open(t);
      const definitions = await bank(t);
      const [first, second] = [new Machine(t, definitions), new Machine(t, definitions)];
      const quiet = { onStopped: () => undefined };
      let owner = await first.open(client(), 100_000, quiet);
      let standby = await second.open(client(), 100_000, { ...quiet, standby: true });
      const early = heardBy(standby);
      await appendAll(owner, 0, 300);
      await same(standby, owner, 'memory');
      assert.deepEqual(early.sequences, await accepted(owner, early.since));

      await second.closeTask();
      await appendAll(owner, 300, 400);
      standby = await second.open(client(), 100_000, { ...quiet, standby: true });
      await same(standby, owner, 'the log');

      // It takes over while the owner still writes, and goes on telling from where it is.
      const heard = heardBy(standby);
      const writing = appendAll(owner, 400, 600).catch(() => undefined);
      await until(() => standby.changes.lastSequence() > heard.since);
      await standby.promote();
      await writing;
      await appendAll(standby, 600, 700);
      await until(() => standby.projectionLag === 0);
      assert.deepEqual(heard.sequences, await accepted(standby, heard.since));
      await first.closeTask();

      // The other way: who owned it follows now, from the disk that it has.
      [owner, standby] = [standby, await first.open(client(), 100_000, { ...quiet, standby: true })];
      await same(standby, owner, 'the log');
      const again = heardBy(standby);
      await appendAll(owner, 700, 800);
      await same(standby, owner, 'the log');
      assert.deepEqual(again.sequences, await accepted(owner, again.since));
      await standby.promote();
      await appendAll(standby, 800, 820);
      await until(() => standby.projectionLag === 0);
      assert.deepEqual(again.sequences, await accepted(standby, again.since));
      await first.closeTask();
      await second.closeTask();
    },
  );
}
