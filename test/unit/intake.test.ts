import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Intake } from '../../src/aggregates/intake.js';

it('waits for what was taken before, and for nothing that comes later', async () => {
  const intake = new Intake();
  await intake.passed();
  const ended: string[] = [];
  const [first, second] = [intake.enter(), intake.enter()];
  const before = intake.passed().then(() => ended.push('before'));
  const later = intake.enter();
  const after = intake.passed().then(() => ended.push('after'));
  second();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(ended, []);
  later();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(ended, [], 'what was taken later ended, and what was taken first has not');
  intake.enter();
  first();
  await Promise.all([before, after]);
  assert.deepEqual(ended, ['before', 'after']);
});
