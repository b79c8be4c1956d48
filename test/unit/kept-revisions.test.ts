import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { goLive } from '../../src/projections/projection-swap.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';

const origin = { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 };

test('states of former revisions are found, taken over and given back, also after they were written', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-kept-'));
  const store = new LocalStore({ path, logger: silentLogger });
  t.after(async () => {
    await store.close();
    rmSync(path, { recursive: true });
  });
  const section = store.section('t');
  const tables = new PartitionTables(section);
  const put = (revision: number, text: string): void =>
    tables.setKeyState('p', revision, 'k', 0, {
      state: Buffer.from(text),
      sequence: 1,
      lastModified: 1,
      fault: undefined,
      origin,
    });
  const textOf = (revision: number): string | undefined => tables.keyState('p', revision, 'k', 0)?.state?.toString();
  const code = (
    revision: number,
    artefactId: string,
  ): { revision: number; artefactId: string; classNames: string[] } => ({ revision, artefactId, classNames: ['C'] });
  const kept = (): unknown[] => tables.kept.of('p').map(({ revision, position }) => [revision, position]);
  // What was written is read as other objects, past the last two writes from the disk.
  const written = async (): Promise<void> => {
    for (let i = 0; i < 3; i++) {
      section.set('other', i);
      await section.flush();
    }
  };

  put(1, 'one');
  put(2, 'two');
  assert.deepEqual(tables.kept.keep('p', { ...code(1, 'A'), position: 10 }, 1), []);
  await written();
  assert.equal(tables.kept.adopt('p', code(3, 'B'), 20), undefined, 'other code');
  assert.equal(tables.kept.adopt('p', { ...code(3, 'A'), classNames: ['D'] }, 20), undefined, 'other classes');
  assert.equal(tables.kept.adopt('p', code(3, 'A'), 9), undefined, 'it is past that place');
  const adopted = tables.kept.adopt('p', code(3, 'A'), 20) ?? assert.fail();
  assert.deepEqual([adopted.revision, adopted.position, kept(), textOf(3), textOf(2)], [1, 10, [], 'one', 'two']);
  put(3, 'further');
  await written();
  tables.kept.giveBack('p', adopted, 3, 15);
  assert.deepEqual([kept(), textOf(1), textOf(3)], [[[1, 15]], 'further', undefined]);

  const again = tables.kept.adopt('p', code(4, 'A'), 20) ?? assert.fail();
  assert.equal(again.position, 15);
  for (const one of tables.kept.keep('p', { ...code(2, 'B'), position: 20 }, 1)) tables.dropRevision('p', one.revision);
  await written();
  assert.deepEqual([kept(), textOf(4), textOf(2)], [[[2, 20]], 'further', 'two']);
  // One more than may be kept, and one of the same code as one that is.
  put(5, 'five');
  for (const one of tables.kept.keep('p', { ...code(5, 'B'), position: 30 }, 2)) tables.dropRevision('p', one.revision);
  assert.deepEqual([kept(), textOf(2), textOf(5)], [[[5, 30]], undefined, 'five']);
  for (const one of tables.kept.keep('p', { ...code(4, 'A'), position: 40 }, 1)) tables.dropRevision('p', one.revision);
  assert.deepEqual([kept(), textOf(5), textOf(4)], [[[4, 40]], undefined, 'further']);
  tables.dropProjection('p');
  while (tables.drops.removeSome(2)) await written();
  assert.deepEqual([kept(), [...section.range('', '\u{10ffff}')].map(([key]) => key)], [[], ['other']]);
});

test('states that have events of an erased aggregate are not kept when another revision goes live', (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-kept-'));
  const store = new LocalStore({ path, logger: silentLogger });
  t.after(async () => {
    await store.close();
    rmSync(path, { recursive: true });
  });
  const tables = new PartitionTables(store.section('t'));
  const swap = (revision: number): void => {
    const { projectionId, ...code } = { projectionId: 'p', revision, artefactId: `p-${revision}`, classNames: ['C'] };
    const before = tables.liveProjection(projectionId);
    goLive(tables, { projectionId, ...code, cause: 'redeploy' }, before, 10 * revision, 0, 1);
  };
  const kept = (): readonly number[] => tables.kept.of('p').map(({ revision }) => revision);
  swap(1);
  swap(2);
  assert.deepEqual(kept(), [1]);
  tables.markErased();
  assert.deepEqual(kept(), []);
  swap(3);
  assert.deepEqual(kept(), [], 'revision 2 was live when something was erased');
  swap(4);
  assert.deepEqual(kept(), [3]);
  tables.setLiveProjection('p', undefined);
  tables.markErased();
  assert.deepEqual(kept(), [], 'none is live');
});
