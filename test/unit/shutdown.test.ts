import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { Shutdown } from '../../src/app/shutdown.js';

test('parts end in the reverse order of their start, each after the one before; one that fails holds up nothing', async () => {
  const said: string[] = [];
  const ended: string[] = [];
  const shutdown = new Shutdown(
    { ...silentLogger, error: (fields) => void said.push((fields as { part: string }).part) },
    60_000,
  );
  for (const name of ['log', 'tasks', 'edge'])
    shutdown.add(name, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      ended.push(name);
      if (name === 'tasks') throw new Error('it does not');
    });
  await Promise.all([shutdown.close(), shutdown.close()]);
  assert.deepEqual(ended, ['edge', 'tasks', 'log']);
  assert.deepEqual(said, ['tasks']);
});

test('a part that does not end is named, and what it rests on is left alone', async () => {
  const said: string[] = [];
  const ended: string[] = [];
  const shutdown = new Shutdown(
    { ...silentLogger, error: (fields) => void said.push((fields as { part: string }).part) },
    1,
  );
  shutdown.add('log', () => ended.push('log'));
  shutdown.add('tasks', () => new Promise(() => undefined));
  shutdown.add('edge', () => ended.push('edge'));
  await shutdown.close();
  assert.deepEqual([ended, said], [['edge'], ['tasks']]);
});
