// Appends to many aggregates at once, each of which has a state of a megabyte.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { FoldItem, FoldOutcome } from '../../src/code-host/code-host.js';
import { localTables } from '../support/local-tables.js';
import { commitOf, REDUCER, reducersAlone } from '../support/reducers-alone.js';

const LARGE = Buffer.alloc(1024 * 1024, 0x20);
const COUNT = 60;

test('the code is given as many aggregates at once as have eight megabytes of states before', (t) =>
  framesBeside(t, REDUCER.generation));

test('the same where those are by other code, and are held until it is known what replaces them', (t) =>
  framesBeside(t, REDUCER.generation - 1));

async function framesBeside(t: TestContext, generation: number): Promise<void> {
  const baseVersion = generation === REDUCER.generation ? 1 : 0;
  const tables = localTables(t);
  const frames: number[] = [];
  const fold = (items: readonly FoldItem[]): Promise<FoldOutcome[]> => {
    frames.push(items.length);
    return Promise.resolve(items.map(() => ({ states: [{ version: baseVersion + 1, state: Buffer.from('{}') }] })));
  };
  const reducers = reducersAlone(t, fold, { tables });
  const ids = Array.from({ length: COUNT }, (_, i) => `a-${i}`);
  for (const id of ids) {
    tables.addCommit(id, { version: baseVersion + 1, type: 'a', timestamp: 1 }, baseVersion, 2);
    const row = { generation, version: 1, state: LARGE, lastModified: 1, offset: 1, fault: undefined };
    tables.setReducerState(id, row);
  }
  const answers = await Promise.all(ids.map((id) => reducers.fold(commitOf(id, baseVersion))));
  assert.ok(answers.every((answer) => 'state' in answer && answer.state?.toString() === '{}'));
  assert.equal(
    frames.reduce((sum, length) => sum + length, 0),
    COUNT,
  );
  assert.ok(Math.max(...frames) <= 8, String(frames));
}
