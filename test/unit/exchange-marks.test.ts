import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ExchangeMarks } from '../../src/code-host/dotnet/exchange-marks.js';
import { silentLogger } from '../../src/core/logger.js';

const EXCHANGE = { units: ['p@1', 'q@2'], events: ['a-1@5', 'a-1@6', 'a-1@7'] };

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'statefold-marks-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return join(path, 'exchanges');
}

test('a process that ended in an exchange is counted, also the second time; of another unit nothing is known', (t) => {
  const path = folder(t);
  new ExchangeMarks(path, silentLogger).begin('tenant', EXCHANGE);
  const second = new ExchangeMarks(path, silentLogger);
  assert.deepEqual(second.deaths('tenant', ['q@2', 'r@1']), { deaths: 1, units: ['q@2'] });
  assert.equal(second.deaths('tenant', ['r@1']).deaths, 0);
  assert.equal(second.deaths('other', ['q@2']).deaths, 0);
  // It ends again before it came so far: no more is held against it than before.
  assert.equal(new ExchangeMarks(path, silentLogger).deaths('tenant', ['p@1']).deaths, 1);
  // Cut otherwise, it is the same work.
  second.begin('tenant', { units: ['p@1'], events: ['a-1@6'] });
  assert.equal(new ExchangeMarks(path, silentLogger).deaths('tenant', ['p@1']).deaths, 2);
});

test('what was worked off leaves nothing behind when the process ends in order', (t) => {
  const path = folder(t);
  const marks = new ExchangeMarks(path, silentLogger);
  marks.begin('tenant', EXCHANGE);
  marks.end('tenant');
  assert.equal(readdirSync(path).length, 1, 'what follows from it has a while');
  marks.close();
  assert.deepEqual(readdirSync(path), []);
});

test('what ended a process is forgotten when its last event is through, or never comes', (t) => {
  const path = folder(t);
  new ExchangeMarks(path, silentLogger).begin('tenant', EXCHANGE);
  const marks = new ExchangeMarks(path, silentLogger);
  marks.passed('tenant', ['a-1@5', 'a-1@6']);
  assert.equal(marks.deaths('tenant', ['p@1']).deaths, 1);
  marks.passed('tenant', ['a-1@6', 'a-1@7']);
  assert.equal(marks.deaths('tenant', ['p@1']).deaths, 0);
  assert.deepEqual(readdirSync(path), []);

  new ExchangeMarks(path, silentLogger).begin('tenant', EXCHANGE);
  const patient = new ExchangeMarks(path, silentLogger);
  for (let i = 0; i <= 1000; i++) patient.passed('tenant', ['b-1@1']);
  assert.equal(patient.deaths('tenant', ['p@1']).deaths, 0);
});

test('a later large answer of a tenant keeps what is held against it', (t) => {
  const path = folder(t);
  new ExchangeMarks(path, silentLogger).begin('tenant', EXCHANGE);
  const marks = new ExchangeMarks(path, silentLogger);
  marks.begin('tenant', { units: ['p@1'], events: ['a-1@3'] });
  marks.end('tenant');
  marks.close();
  assert.deepEqual(new ExchangeMarks(path, silentLogger).deaths('tenant', ['p@1', 'q@2']), {
    deaths: 1,
    units: ['p@1', 'q@2'],
  });
});

test('ends in different work are not held against one: the process may have been ended for anything', (t) => {
  const path = folder(t);
  new ExchangeMarks(path, silentLogger).begin('tenant', EXCHANGE);
  const second = new ExchangeMarks(path, silentLogger);
  second.begin('tenant', { ...EXCHANGE, events: ['a-1@8', 'b-1@1'] });
  const third = new ExchangeMarks(path, silentLogger);
  assert.equal(third.deaths('tenant', ['p@1']).deaths, 1);
  third.begin('tenant', { ...EXCHANGE, events: ['b-1@1'] });
  assert.equal(new ExchangeMarks(path, silentLogger).deaths('tenant', ['p@1']).deaths, 2, 'the same event again');
});

test('a file that is cut off is removed; names of tenants are no paths; nobody else reads them', (t) => {
  const path = folder(t);
  new ExchangeMarks(path, silentLogger);
  writeFileSync(join(path, 'tenant'), '{"units":["p@1"],"thr');
  const marks = new ExchangeMarks(path, silentLogger);
  assert.equal(existsSync(join(path, 'tenant')), false);
  marks.begin('../..', EXCHANGE);
  const [name] = readdirSync(path);
  assert.equal(statSync(join(path, name ?? '')).mode & 0o777, 0o600);
  assert.equal(statSync(path).mode & 0o777, 0o700);
  assert.equal(new ExchangeMarks(path, silentLogger).deaths('../..', ['p@1']).deaths, 1);
});
