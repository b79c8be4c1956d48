import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { Assignment } from '../../src/tenancy/assignment.js';
import { ToldOwnership } from '../support/edge-pair.js';

test('what went to another process is closed at once, however many are still being opened', () => {
  const ownership = new ToldOwnership();
  const passivated: string[] = [];
  const opening: string[] = [];
  const assignment = new Assignment({
    ownership,
    tenants: {
      activeKeys: ['lost', 'kept'],
      standbyKeys: [],
      open: (key) => {
        opening.push(key);
        return new Promise(() => undefined);
      },
      standBy: () => Promise.resolve(),
      passivate: (key) => {
        passivated.push(key);
        return Promise.resolve();
      },
      onStopped: () => undefined,
    },
    activity: { keys: () => Array.from({ length: 20 }, (_, i) => `new-${i}`) },
    standbys: false,
    notified: { wanted: [], wants: () => false, onUnwanted: () => undefined },
    logger: silentLogger,
    onReassigned: () => undefined,
  });
  ownership.tell('self');
  assert.deepEqual([opening.length < 20, passivated], [true, []], 'all that may be opened at once are being opened');
  ownership.tell(undefined);
  assert.deepEqual(passivated, [], 'nobody has them yet: they are served on');
  ownership.tell((key) => (key === 'lost' ? { url: 'http://elsewhere' } : 'self'));
  assert.deepEqual(passivated, ['lost']);
  assignment.close();
});
