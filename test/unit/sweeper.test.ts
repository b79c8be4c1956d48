import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import { Sweeper } from '../../src/jobs/sweeper.js';
import { until } from '../support/service.js';

test('nothing more is removed while the store can not be written, and that is told once', async (t) => {
  const told: (string | undefined)[] = [];
  const logger: Logger = { ...silentLogger, warn: (...[, message]) => void told.push(message) };
  let [isFull, asked, left] = [true, 0, 3];
  const sweeper = new Sweeper({
    drops: { onAdded: () => undefined, removeSome: () => left-- > 0 },
    section: {
      tenantId: 't',
      room: () => (asked++, isFull ? Promise.reject(new Error('the disk is full')) : Promise.resolve()),
    },
    logger,
  });
  t.after(() => sweeper.close());
  sweeper.start();
  await until(() => asked === 3);
  assert.deepEqual([left, told.length], [2, 1]);
  isFull = false;
  await until(() => left < 0);
});
