// A throwaway service for tests of users: as the client package starts it, and as it ends with whoever did.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { isClientError, UnreachableError } from '../../packages/client/src/index.js';
import { startTestService, TestServiceError, type TestService } from '../../packages/client/src/testing/index.js';
import { programOf, PROGRAM, ROOT, temporaryDirectory, until } from '../support/service.js';

const BANK = join(ROOT, 'samples', 'bank');
const left = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('statefold-test-'));
const opened = { eventType: 'Opened', data: { owner: 'Ada' } };
const deposited = (cents: number) => ({ eventType: 'Deposited', data: { cents } });
const isGone = async (url: string): Promise<boolean> =>
  fetch(`${url}/health`).then(
    () => false,
    () => true,
  );

test('a time that is none is said to be so, and nothing is left of it', async () => {
  const before = left();
  await assert.rejects(startTestService({ time: 'yesterday' }), {
    name: 'RangeError',
    message: /time must be .* yesterday$/,
  });
  assert.deepEqual(left(), before);
});

test('a service for tests has the code of a folder, the time of the test, and tenants that share nothing', async (t) => {
  const before = new Set(left());
  const service = await startTestService({ endWith: t, code: BANK, time: '2026-03-01T12:00:00.000Z' });
  const { client } = service;

  await t.test('code: reducers and projections are live', async () => {
    const { state } = await client.appendBatch({ aggregateId: 'account-1', events: [opened, deposited(500)] });
    assert.deepEqual(state, { owner: 'Ada', balance: 500, entries: 1 });
    const { projectionId: id = '' } = service;
    const changes = client.subscribe(id, { signal: AbortSignal.timeout(20_000) })[Symbol.asyncIterator]();
    const transfer = { transferId: 't-1', from: 'account-1', to: 'account-2', cents: 1 };
    await client.append({ aggregateId: 'account-1', eventType: 'TransferSent', data: transfer });
    assert.equal((await changes.next()).value?.key, 't-1');
    await changes.return();
    assert.equal((await client.request('getReducer', { path: { id: service.reducerId ?? '' } })).status, 'compiled');
  });

  await t.test('time: events have it from the moment that it is set, backwards too', async () => {
    let n = 0;
    const at = async (id = `clock-${n++}`): Promise<string> =>
      (await client.append({ aggregateId: id, ...opened })).timestamp;
    assert.equal(await at(), '2026-03-01T12:00:00.000Z');
    assert.equal(await at('clock-0'), '2026-03-01T12:00:00.000Z');
    for (const time of ['2026-03-01T12:00:00.001Z', '2027-01-01T00:00:00.000Z', '1999-12-31T23:59:59.000Z']) {
      service.setTime(time);
      assert.equal(await at(), time);
    }
    service.setTime(new Date(0));
    assert.equal(await at(), '1970-01-01T00:00:00.000Z');
    const started = Date.now();
    assert.equal(await at('clock-0'), '2026-03-01T12:00:00.000Z', 'an aggregate never goes back in time');
    service.setTime(undefined);
    assert.ok(Date.parse(await at()) >= started);
    assert.throws(() => service.setTime('tomorrow'), RangeError);
    const { events } = await client.feed.read({ aggregateType: 'clock' });
    assert.equal(events.length, 8);
  });

  await t.test('tenants: each has its own events, and code where it is given', async () => {
    const [one, other] = await Promise.all([service.newTenant(), service.newTenant({ code: BANK })]);
    await one.client.append({ aggregateId: 'account-1', expectedVersion: 0, ...opened });
    assert.equal((await one.client.append({ aggregateId: 'account-1', ...opened })).state, undefined);
    const { state } = await other.client.append({ aggregateId: 'account-1', expectedVersion: 0, ...opened });
    assert.ok(state !== undefined);
    assert.deepEqual([one.reducerId, one.projectionId], [undefined, undefined]);
    assert.ok(other.reducerId !== undefined && other.projectionId !== undefined);
  });

  await t.test('it stops once, and leaves nothing', async () => {
    await Promise.all([service.stop(), service.stop()]);
    await assert.rejects(client.request('whoami'), UnreachableError);
    assert.deepEqual(
      left().filter((name) => !before.has(name)),
      [],
    );
  });
});

test('it ends with the test that started it', async (t) => {
  let service: TestService | undefined;
  await t.test('a test', async (inner) => {
    service = await startTestService({ endWith: inner });
    assert.equal((await service.client.request('whoami')).tenantId, 'default');
  });
  assert.ok(await isGone(service?.url ?? ''));
  const ends: (() => Promise<void>)[] = [];
  const other = await startTestService({ endWith: (end) => ends.push(end) });
  assert.equal(ends.length, 1);
  await ends[0]?.();
  assert.ok(await isGone(other.url));
});

for (const [how, ends] of [
  ['is killed', 'setInterval(() => undefined, 1000);'],
  ['ends and has forgotten it', ''],
] as const)
  test(`it ends with the process of the tests, also where that ${how}`, async (t) => {
    const folder = temporaryDirectory(t);
    const module = pathToFileURL(join(ROOT, 'packages', 'client', 'dist', 'testing', 'index.js')).href;
    const script = `import { startTestService } from '${module}';
      const { url } = await startTestService();
      process.stdout.write(url + '\\n');
      ${ends}`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TMPDIR: folder },
    });
    t.after(() => child.kill('SIGKILL'));
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await until(() => said.endsWith('\n'));
    if (ends !== '') {
      assert.equal(await isGone(said.trim()), false);
      child.kill('SIGKILL');
    }
    await until(() => isGone(said.trim()));
    await until(() => child.exitCode !== null || child.signalCode !== null);
    await until(() => readdirSync(folder).length === 0);
  });

test('what it can not do, it says', async (t) => {
  const folder = temporaryDirectory(t);
  await assert.rejects(startTestService({ home: folder }), /There is no built Statefold in .*npm run build/);
  await assert.rejects(startTestService({ code: join(folder, 'nowhere') }), /There is no folder .*nowhere/);
  writeFileSync(
    join(folder, 'Nothing.cs'),
    '// IReducer<T> is only said here\nclass Nothing { string s = "IProjection<T>"; }',
  );
  await assert.rejects(startTestService({ code: folder }), /No \.cs file in .* implements IReducer<T>/);
  writeFileSync(join(folder, 'Broken.cs'), 'class Broken : IReducer<string> { nonsense }');
  await assert.rejects(
    startTestService({ code: folder }),
    (error) => error instanceof TestServiceError && /Broken\.cs:1 CS\d+/.test(error.message) && !isClientError(error),
  );
  await assert.rejects(startTestService({ env: { LOG_LEVEL: 'loud' } }), /did not start[^]*LOG_LEVEL must be/);
});

const serve = (env: NodeJS.ProcessEnv): ReturnType<typeof spawnSync> =>
  spawnSync(process.execPath, [programOf(PROGRAM), 'serve'], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], PORT: '0', LOG_LEVEL: 'warn', ...env },
    input: '',
    encoding: 'utf8',
    timeout: 60_000,
  });

test('test mode keeps its hands off data that others made', (t: TestContext) => {
  const folder = temporaryDirectory(t);
  writeFileSync(join(folder, 'mine'), 'kept');
  const refused = serve({ TEST_MODE: 'true', STATEFOLD_DATA_DIR: folder });
  assert.equal(refused.status, 1);
  assert.match(String(refused.stderr), /TEST_MODE removes its data when it ends, and .* is not empty/);
  assert.equal(readFileSync(join(folder, 'mine'), 'utf8'), 'kept');
  const clock = join(folder, 'time');
  writeFileSync(clock, 'noon');
  const mistaken = serve({ TEST_MODE: 'true', TEST_CLOCK: clock, STATEFOLD_DATA_DIR: join(folder, 'data') });
  assert.equal(mistaken.status, 1);
  assert.match(String(mistaken.stderr), /TEST_CLOCK holds 'noon': write a time in ISO 8601/);
  const both = serve({ TEST_MODE: 'true', KAFKA_BROKERS: '127.0.0.1:1', STATEFOLD_DATA_DIR: join(folder, 'data') });
  assert.match(String(both.stderr), /TEST_MODE goes without KAFKA_BROKERS/);
  // Standard input has ended already: it serves, ends, and has removed what it made, and nothing else.
  const served = serve({ TEST_MODE: 'true', STATEFOLD_DATA_DIR: join(folder, 'data') });
  assert.equal(served.status, 0, String(served.stderr));
  assert.deepEqual(readdirSync(folder).sort(), ['mine', 'time']);
});

test('the test of the README of the package passes as it is written', (t: TestContext) => {
  const readme = readFileSync(join(ROOT, 'packages', 'client', 'README.md'), 'utf8');
  const [, code] = /```js\n(\/\/ bank\.test\.mjs\n[^]*?)```/.exec(readme) ?? [];
  assert.ok(code, 'the README shows bank.test.mjs');
  const folder = mkdtempSync(join(tmpdir(), 'statefold-readme-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'node_modules', '@statefold'), { recursive: true });
  symlinkSync(join(ROOT, 'packages', 'client'), join(folder, 'node_modules', '@statefold', 'client'));
  symlinkSync(BANK, join(folder, 'bank'));
  assert.ok(existsSync(join(folder, 'bank', 'AccountReducer.cs')));
  writeFileSync(join(folder, 'bank.test.mjs'), code);
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const run = spawnSync(process.execPath, ['--test', 'bank.test.mjs'], {
    cwd: folder,
    env,
    encoding: 'utf8',
    timeout: 120_000,
  });
  assert.equal(run.status, 0, run.stdout + run.stderr);
  assert.match(run.stdout, /pass 2\b/);
});
