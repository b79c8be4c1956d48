import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { allWritten } from '../../src/core/lmdb-failure.js';

test('why a write failed is heard while another is under way', async () => {
  // As lmdb-js tells it: beside the error, and a moment later. Unheard by then, it ends the process.
  const cause = new Error('No space left on device');
  let tell = (_cause: Error): void => undefined;
  const commitError = new Promise<never>((_, reject) => (tell = reject));
  const failed = Promise.reject(Object.assign(new Error('Commit failed'), { commitError }));
  let end = (): void => undefined;
  const later = new Promise<void>((resolve) => (end = resolve));
  let isOver = false;
  const written = allWritten([failed, later]).finally(() => (isOver = true));
  const refused = assert.rejects(written, cause);
  tell(cause);
  await setImmediate();
  assert.equal(isOver, false);
  end();
  await refused;
});
