// Code that throws leaves as many aggregates faulted as there are: what goes through all of them does it some at a time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FAULTED_PER_TURN } from '../../src/aggregates/reducer-catch-ups.js';
import { until } from '../support/service.js';
import { slowTenant, upTo } from '../support/versions-world.js';

test('more faulted aggregates than are looked at in a turn are folded by other code, and by the code before it again', async (t) => {
  const { task, runner, append } = await slowTenant(t);
  runner.release();
  runner.throws = (className) => className === 'Throws';
  const bind = (generation: number, className: string): void =>
    task.bind({ aggregateType: 'T', artefactId: `r${generation}`, className, generation });
  const ids = Array.from({ length: 2 * FAULTED_PER_TURN + 7 }, (_, i) => `a-${i}`);
  bind(2, 'Throws');
  await Promise.all(ids.map((id) => append(id, 10)));
  await until(() => task.first.faulted === ids.length);
  for (const [generation, className] of [
    [3, 'R'],
    [4, 'Throws'],
    [5, 'R'],
  ] as const) {
    bind(generation, className);
    await until(() => task.first.statesEnd === Infinity);
    assert.equal(task.first.faulted, className === 'Throws' ? ids.length : 0, `generation ${generation}`);
    if (className === 'Throws') continue;
    for (const id of ids) {
      const { version, state } = await task.first.state('T', id);
      assert.deepEqual([version, JSON.parse(String(state))], [1, upTo(1)], id);
    }
  }
});
