// What `npm test` preloads into the process of each test file: an error that nobody caught is still that test's whose it is.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { ROOT, temporaryDirectory } from '../support/service.js';

/** Each waits until it is failed for what happens elsewhere; `kept` says whether this process notes itself whose a promise is. */
const ERRORS = `
import { executionAsyncResource } from 'node:async_hooks';
import { connect, createServer } from 'node:net';
import test, { after, describe, it } from 'node:test';
const failed = (t) => new Promise((resolve) => t.signal.addEventListener('abort', resolve));
test('a timer', async (t) => {
  setTimeout(() => { throw new Error('of a timer'); });
  await failed(t);
});
test('a promise', async (t) => {
  void (async () => { await undefined; throw new Error('of a promise'); })();
  await failed(t);
});
test('two beside each other', { concurrency: true }, async (t) => {
  await Promise.all(['one', 'other'].map((name) => t.test(name, async (t) => {
    const server = createServer((socket) => { socket.destroy(); throw new Error('of ' + name); }).listen(0, '127.0.0.1', () => {
      connect(server.address().port, '127.0.0.1').unref();
    });
    await failed(t);
    server.close();
  })));
});
describe('a suite', () => {
  it('in it', async () => undefined);
  describe('one within', async () => {
    await undefined;
    it('in that', async () => undefined);
  });
});
test('one that declares others', async () => {
  await undefined;
  after(() => console.log('kept: behind it'));
  await Promise.all([test('its own', async () => undefined)]);
});
test('none', async () => {
  await undefined;
  const noted = Object.getOwnPropertySymbols(executionAsyncResource()).map(({ description }) => description);
  console.log('kept: ' + noted.includes('test'));
});
`;

async function outcomes(file: string, ...flags: readonly string[]): Promise<readonly string[]> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = [...flags, '--test-reporter=tap', file];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = (await text(child.stdout)).split('\n').map((line) => line.trim());
  return lines.filter((line) => /^(not )?ok |^error: |^kept: |^# (Warning|Error)/.test(line));
}

const EXPECTED = [
  ...['not ok 1 - a timer', "error: 'of a timer'", 'not ok 2 - a promise', "error: 'of a promise'"],
  ...['not ok 1 - one', "error: 'of one'", 'not ok 2 - other', "error: 'of other'"],
  ...['not ok 3 - two beside each other', "error: '2 subtests failed'"],
  ...['ok 1 - in it', 'ok 1 - in that', 'ok 2 - one within', 'ok 4 - a suite'],
  ...['ok 1 - its own', 'kept: behind it', 'ok 5 - one that declares others', 'ok 6 - none'],
];

test('an error that nobody caught fails the test that it comes from, and tests are in those that declare them, as without the preload', async (t) => {
  const file = join(temporaryDirectory(t), 'errors.test.mjs');
  writeFileSync(file, ERRORS);
  const preload = pathToFileURL(join(ROOT, 'scripts', 'test-tracking.mjs')).href;
  const sorted = (lines: readonly string[]): string[] => [...lines].sort();
  assert.deepEqual(sorted(await outcomes(file, '--import', preload)), sorted([...EXPECTED, 'kept: true']));
  assert.deepEqual(sorted(await outcomes(file)), sorted([...EXPECTED, 'kept: false']));
});
