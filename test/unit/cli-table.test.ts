import assert from 'node:assert/strict';
import { test } from 'node:test';
import { table } from '../../src/cli/io.js';

test('what a cell has of control characters is shown, and done by no terminal: it makes no line either', () => {
  const forged = 'x\n2026-01-01T00:00:00Z  acme  admin  tenant.delete\u001b[2J\u009b1A\u202e\u2028';
  const text = table(['KEY', 'OBJECT'], [['k1', forged]], '');
  assert.deepEqual(text.split('\n'), [
    'KEY  OBJECT',
    'k1   x\\u000a2026-01-01T00:00:00Z  acme  admin  tenant.delete\\u001b[2J\\u009b1A\\u202e\\u2028',
    '',
  ]);
});

test('names of any script stay as they are', () => {
  assert.equal(table(['KEY'], [['Zoë 東京 👩‍💻 می‌خواهم']], '').split('\n')[1], 'Zoë 東京 👩‍💻 می‌خواهم');
});
