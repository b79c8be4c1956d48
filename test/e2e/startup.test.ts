import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'node:test';
import { statOf } from '../../src/jail/process-usage.js';
import { Api, success, withoutMoving } from '../support/api.js';
import { openSocket } from '../support/api-channels.js';
import { tally, totals } from '../support/csharp.js';
import {
  API_KEY,
  ROOT,
  startService,
  temporaryDirectory,
  until,
  type Answer,
  type Service,
} from '../support/service.js';

const MAIN = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'src', 'main.js');

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program that must end by itself. */
async function run(
  program: string,
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  return { code, output };
}

/** Processes that descend from one, by /proc. */
function descendants(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'utf8');
      parents.set(Number(entry), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // It has ended meanwhile.
    }
  }
  const found: number[] = [];
  const visit = (parent: number): void => {
    for (const [child, of] of parents)
      if (of === parent) {
        found.push(child);
        visit(child);
      }
  };
  visit(pid);
  return found;
}

/** Neither gone nor a zombie. */
function runs(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && stat.state !== 'Z';
}

/** Processes that have a file under the directory open, or work in it. */
const usersOf = (directory: string): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return [`/proc/${pid}/cwd`, ...readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`)].some(
          (link) => {
            try {
              return readlinkSync(link).startsWith(directory);
            } catch {
              return false;
            }
          },
        );
      } catch {
        return false;
      }
    });

test('starting and ending', { skip: process.platform === 'linux' ? false : 'reads /proc' }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  // All that a service keeps ready has to end with it.
  const env = { COMPILERS_WARM: '1' };
  let service: Service = await startService(t, { readStore: true, dataDirectory, env });
  let api = new Api(service);
  await api.deployReducer({ 'Tally.cs': tally('tally') });
  const projection = await api.deployProjection({ 'Totals.cs': totals() });
  await api.append('tally-1', 'A', { key: 'x', n: 1 });
  await api.notifications(projection, 1);

  await t.test('a second start on the same data says whose it is, and ends', async () => {
    const began = performance.now();
    const second = await run(MAIN, { PORT: '0', STATEFOLD_DATA_DIR: dataDirectory }, ['serve']);
    assert.equal(second.code, 1, second.output);
    assert.match(
      second.output,
      new RegExp(`^${dataDirectory} is in use by another Statefold \\(process ${service.pid}\\)[^\\n]*\\n$`),
    );
    assert.ok(performance.now() - began < 20_000);
    assert.equal((await api.append('tally-1', 'A')).version, 2);
  });

  await t.test(
    'SIGTERM and SIGINT end it in seconds, with all of its processes, and it finds everything again',
    async () => {
      const all = (): Promise<Answer[]> =>
        Promise.all(
          [
            '/events/tally-1',
            '/aggregate-types/tally/tally-1/state',
            `/projections/${projection}/notifications`,
            `/projections/${projection}/states`,
            '/reducers',
            '/projections',
          ].map((path) => api.get(path)),
        );
      for (const signal of ['SIGTERM', 'SIGINT'] as const) {
        const socket = await openSocket(t, api, projection);
        const waiting = api.get(
          `/projections/${projection}/notifications?waitSeconds=60&afterSequence=${Number.MAX_SAFE_INTEGER}`,
        );
        const children = descendants(service.pid);
        assert.ok(children.length >= 2, 'the code host and the read store run');
        const before = await all();
        const began = performance.now();
        await service.kill(signal);
        assert.ok(performance.now() - began < 10_000, `${Math.round(performance.now() - began)} ms`);
        assert.equal(await socket.closed, 1001);
        assert.equal(success(await waiting, 200).text.startsWith('{"notifications":[]'), true);
        assert.deepEqual(children.filter(runs), []);
        assert.deepEqual(usersOf(dataDirectory), []);
        service = await startService(t, { readStore: true, dataDirectory, env });
        api = new Api(service);
        const after = await all();
        assert.deepEqual(
          after.map((answer) => withoutMoving(answer.json())),
          before.map((answer) => withoutMoving(answer.json())),
        );
      }
    },
  );

  await t.test('appends that are under way at a SIGTERM are answered, and are there', async () => {
    const answers: Promise<{ status: number } | undefined>[] = [];
    for (let i = 0; i < 50; i++)
      answers.push(
        service
          .request('POST', '/events', { body: { aggregateId: 'ending-1', eventType: 'A', data: { i } } })
          .catch(() => undefined),
      );
    await Promise.race(answers);
    await service.stop();
    const accepted = (await Promise.all(answers)).filter((answer) => answer?.status === 201).length;
    service = await startService(t, { readStore: true, dataDirectory, env });
    api = new Api(service);
    const { events } = await api.read<{ events: object[] }>('/events/ending-1');
    assert.ok(accepted >= 1 && events.length >= accepted, `${accepted} answered, ${events.length} there`);
  });

  await t.test('a kill leaves no process behind either', async () => {
    const children = descendants(service.pid);
    assert.ok(children.length >= 1);
    await service.kill();
    await until(() => children.filter(runs).length === 0, 10_000);
  });

  await t.test('the key of tenant default is made and told once', async () => {
    const directory = temporaryDirectory(t);
    const first = await startService(t, {
      readStore: true,
      dataDirectory: directory,
      env: { STATEFOLD_API_KEY: '', STATEFOLD_ADMIN_KEY: '' },
    });
    const [, key = ''] = /^ {2}export STATEFOLD_API_KEY=(sf_\S+)$/m.exec(first.output) ?? [];
    assert.equal((await new Api(first, key).read<{ tenantId: string }>('/auth/whoami')).tenantId, 'default');
    for (const secret of ['admin-key', 'master-key'])
      assert.equal(statSync(join(directory, secret)).mode & 0o777, 0o600, secret);
    const adminKey = readFileSync(join(directory, 'admin-key'), 'utf8').trim();
    success(await new Api(first, null).get('/admin/tenants', { headers: { 'x-admin-key': adminKey } }), 200);
    await first.stop();
    const second = await startService(t, {
      dataDirectory: directory,
      env: { STATEFOLD_API_KEY: '', STATEFOLD_ADMIN_KEY: '' },
    });
    assert.doesNotMatch(second.output, /sf_/);
    success(await new Api(second, key).get('/auth/whoami'), 200);
    await second.stop();
    // A key that is chosen later works beside it.
    const third = await startService(t, { dataDirectory: directory });
    for (const one of [key, API_KEY]) success(await new Api(third, one).get('/auth/whoami'), 200);
    for (const file of readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .map((name) => join(directory, name))
      .filter((path) => statSync(path).isFile()))
      assert.ok(!readFileSync(file).includes(key), `${file} holds the API key`);
  });

  await t.test('what is wrong with the settings is told in sentences', async () => {
    const ended = await run(
      MAIN,
      { PORT: 'x', STATEFOLD_API_KEY: 'short', STATEFOLD_DATA_DIR: join(temporaryDirectory(t), 'data') },
      ['serve'],
    );
    assert.equal(ended.code, 1);
    assert.match(ended.output, /^PORT [^\n]+\nSTATEFOLD_API_KEY [^\n]+\n$/);
  });

  await t.test('without the .NET SDK it is one sentence', async () => {
    // A clone that was never built, on a machine that has Node alone.
    const clone = temporaryDirectory(t);
    for (const name of [
      'package.json',
      'package-lock.json',
      'tsconfig.json',
      'scripts',
      'dotnet/src',
      'dotnet/Directory.Build.props',
      'dotnet/Directory.Build.targets',
      'dotnet/Directory.Packages.props',
      'dotnet/hosts.proj',
    ].filter((path) => existsSync(join(ROOT, path)))) {
      mkdirSync(dirname(join(clone, name)), { recursive: true });
      cpSync(join(ROOT, name), join(clone, name), {
        recursive: true,
        filter: (path) => !/\/(bin|obj)(\/|$)/.test(path),
      });
    }
    symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
    for (const script of ['start.mjs', 'build-dotnet.mjs']) {
      const ended = await run(join(clone, 'scripts', script), { PATH: clone });
      assert.equal(ended.code, 1, ended.output);
      assert.match(ended.output, /^[^\n]*\.NET SDK 10[^\n]*https:\/\/dotnet\.microsoft\.com[^\n]*\n$/);
    }
  });
});
