// Every start that can't be is one sentence with what to do, exit code 1 and no stack; and it leaves nothing that the next start misses.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import test, { type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import { Api } from '../support/api.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';
import { PROGRAM, programOf, ROOT, startService, temporaryDirectory, until, type Service } from '../support/service.js';

const SHOWN_KEY = /^ {2}export STATEFOLD_API_KEY=(sf_\S+)$/m;
/** Nobody: a user who owns nothing. */
const NOBODY = 65_534;
/** The starts here that fail, and those that go on after them, are on one log. */
const skip = process.env['STATEFOLD_TEST_LOG'] === 'kafka' ? 'starts on the log in the data directory' : false;
const isRoot = process.getuid?.() === 0;

function start(
  t: Pick<TestContext, 'after'>,
  env: Readonly<Record<string, string>>,
  uid?: number,
  args: readonly string[] = ['serve'],
): ChildProcess {
  const base = { PATH: process.env['PATH'], HOME: process.env['HOME'], PORT: '0' };
  const child = spawn(process.execPath, [programOf(PROGRAM), ...args], {
    cwd: ROOT,
    env: { ...base, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(uid !== undefined && { uid, gid: uid }),
  });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

async function ending(child: ChildProcess): Promise<{ code: number | null; out: string; err: string }> {
  if (child.stdout === null || child.stderr === null) throw new Error('no pipes');
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, out, err };
}

/** One line on standard error, and nothing else. */
async function refused(
  t: Pick<TestContext, 'after'>,
  env: Readonly<Record<string, string>>,
  expected: RegExp,
  uid?: number,
): Promise<void> {
  const { code, out, err } = await ending(start(t, env, uid));
  assert.deepEqual({ code, out }, { code: 1, out: '' }, err);
  assert.match(err, expected);
  assert.match(err, /^[^\n]+\.\n$/, 'one line');
}

async function taken(t: TestContext): Promise<{ port: string; server: Server }> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { port: String((server.address() as AddressInfo).port), server };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

const WITHOUT_KEYS = { STATEFOLD_API_KEY: '', STATEFOLD_ADMIN_KEY: '' };
const keyOf = (service: Service): string => SHOWN_KEY.exec(service.output)?.[1] ?? '';

test('a start on a port that is taken makes no key, and the next one shows it', { skip }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const { port, server } = await taken(t);
  await refused(
    t,
    { STATEFOLD_DATA_DIR: dataDirectory, PORT: port },
    new RegExp(`^Port ${port} of 127\\.0\\.0\\.1 is taken by another program: .*set PORT`),
  );
  await refused(
    t,
    { STATEFOLD_DATA_DIR: dataDirectory, METRICS_PORT: port },
    new RegExp(`^Port ${port} of .* is taken .*set METRICS_PORT`),
  );
  assert.deepEqual(readdirSync(dataDirectory), ['format.json']);
  await once(server.close(), 'close');
  const service = await startService(t, { dataDirectory, env: { ...WITHOUT_KEYS, PORT: port } });
  assert.equal((await new Api(service, keyOf(service)).read<{ tenantId: string }>('/auth/whoami')).tenantId, 'default');
});

test('a key that was made and not shown is shown by the next start, and then never again', { skip }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  // It ends at the write of what would have shown the key: nobody reads its standard output.
  const first = start(t, { STATEFOLD_DATA_DIR: dataDirectory });
  first.stdout?.destroy();
  assert.deepEqual(await once(first, 'exit'), [1, null]);
  const key = readFileSync(join(dataDirectory, 'first-key'), 'utf8').trim();
  const second = await startService(t, { dataDirectory, env: WITHOUT_KEYS });
  assert.equal(keyOf(second), key);
  assert.equal((await new Api(second, key).read<{ tenantId: string }>('/auth/whoami')).tenantId, 'default');
  await until(() => !existsSync(join(dataDirectory, 'first-key')));
  await second.stop();
  const third = await startService(t, { dataDirectory, env: WITHOUT_KEYS });
  assert.doesNotMatch(third.output, /sf_/);
  assert.equal((await new Api(third, key).get('/auth/whoami')).status, 200);
});

test('what is wrong with the address is told by the setting', { skip }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  await refused(
    t,
    { STATEFOLD_DATA_DIR: dataDirectory, HOST: '192.0.2.1' },
    /^192\.0\.2\.1 is no address of this machine: set HOST /,
  );
  await refused(
    t,
    { STATEFOLD_DATA_DIR: dataDirectory, HOST: 'nowhere.invalid' },
    /^The name nowhere\.invalid has no address: set HOST /,
  );
});

test('what is wrong with the data directory is told with its path', { skip }, async (t) => {
  const directory = temporaryDirectory(t);
  const inside = (name: string): string => join(directory, name);

  await t.test('a file has its name, or is above it', async () => {
    writeFileSync(inside('file'), '');
    for (const path of [inside('file'), join(inside('file'), 'data')])
      await refused(
        t,
        { STATEFOLD_DATA_DIR: path },
        new RegExp(`^The data directory ${path} can't be made, because a file .*STATEFOLD_DATA_DIR\\.$`, 'm'),
      );
  });

  await t.test('it is where no folder can be made', async () => {
    await refused(t, { STATEFOLD_DATA_DIR: '/proc/statefold/data' }, /^The data directory .*STATEFOLD_DATA_DIR/m);
  });

  await t.test(
    'it belongs to another user, or what is in it does',
    { skip: isRoot ? false : 'needs root, to be another user' },
    async () => {
      chmodSync(directory, 0o755);
      mkdirSync(inside('root'), { mode: 0o700 });
      const told = (path: string): RegExp =>
        new RegExp(`^${path} can't be read and written by this user \\(uid ${NOBODY}\\): .*chown`);
      // Another user has to read the program too.
      const readable = await ending(start(t, {}, NOBODY, ['--version']));
      if (readable.code !== 0) return t.diagnostic('this checkout is not open to other users');
      await refused(t, { STATEFOLD_DATA_DIR: inside('root') }, told(inside('root')), NOBODY);
      mkdirSync(inside('mixed'));
      mkdirSync(join(inside('mixed'), 'log'), { mode: 0o755 });
      chownSync(inside('mixed'), NOBODY, NOBODY);
      await refused(t, { STATEFOLD_DATA_DIR: inside('mixed') }, told(join(inside('mixed'), 'log')), NOBODY);
    },
  );

  await t.test('a newer version wrote it', async () => {
    mkdirSync(inside('newer'));
    writeFileSync(join(inside('newer'), 'format.json'), '{"format":2,"writtenBy":"9.1.0"}\n');
    await refused(
      t,
      { STATEFOLD_DATA_DIR: inside('newer') },
      new RegExp(
        `^The data in ${inside('newer')} were written by a newer Statefold \\(9\\.1\\.0\\): their format is 2, .* reads up to 1\\. Start the newer version`,
      ),
    );
    assert.deepEqual(readdirSync(inside('newer')), ['format.json'], 'nothing was touched');
    writeFileSync(join(inside('newer'), 'format.json'), '{"for');
    await refused(t, { STATEFOLD_DATA_DIR: inside('newer') }, /^\S+format\.json does not say which format/);
  });

  await t.test('a part of it is damaged', async () => {
    mkdirSync(join(inside('damaged'), 'log'), { recursive: true });
    writeFileSync(join(inside('damaged'), 'log', 'data.mdb'), Buffer.alloc(8192, 7));
    await refused(t, { STATEFOLD_DATA_DIR: inside('damaged') }, /^\S+data\.mdb is damaged: .*Restore it from a backup/);
    mkdirSync(inside('emptied'));
    writeFileSync(join(inside('emptied'), 'admin-key'), '');
    await refused(t, { STATEFOLD_DATA_DIR: inside('emptied') }, /^\S+admin-key is empty: restore it/);
  });

  await t.test('its disk is full', async (t) => {
    const disk = smallDisk(t, 160);
    if (disk === undefined) return t.skip(NO_SMALL_DISK);
    const dataDirectory = join(disk, 'data');
    const first = await startService(t, { readStore: true, dataDirectory });
    await first.stop();
    writeFileSync(join(disk, 'balloon'), Buffer.alloc(110 * 1024 * 1024, 1));
    const full = new RegExp(
      `^The disk of the data directory ${dataDirectory} is full: \\d+ MiB are free, and 66 MiB must be\\. Make room`,
    );
    await refused(t, { STATEFOLD_DATA_DIR: dataDirectory }, full);
    fill(join(disk, 'balloon'));
    await refused(t, { STATEFOLD_DATA_DIR: dataDirectory }, full);
    await refused(
      t,
      { STATEFOLD_DATA_DIR: join(disk, 'another') },
      new RegExp(`^The disk of the data directory ${join(disk, 'another')} is full: 0 MiB are free`),
    );
    rmSync(join(disk, 'balloon'));
    const again = await startService(t, { readStore: true, dataDirectory });
    assert.equal((await again.get('/auth/whoami')).status, 200);
    await again.stop();
  });
});

test('what the service needs beside it is told before a key is made', { skip }, async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const nothing = temporaryDirectory(t);
  await refused(
    t,
    { STATEFOLD_DATA_DIR: dataDirectory, PATH: nothing },
    /^Statefold compiles and runs C# with \.NET 10, and `dotnet` is not on the PATH: install .*https:\/\/dotnet\.microsoft\.com/,
  );
  await refused(
    t,
    {
      STATEFOLD_DATA_DIR: dataDirectory,
      KAFKA_BROKERS: '127.0.0.1:1',
      KAFKA_SSL: 'true',
      KAFKA_SSL_CA: join(nothing, 'ca.pem'),
    },
    /^The file \S+ca\.pem can't be read \(ENOENT\): set KAFKA_SSL_CA /,
  );
  const service = await startService(t, {
    readStore: true,
    dataDirectory,
    env: { ...WITHOUT_KEYS, CLICKHOUSE_URL: 'http://127.0.0.1:1' },
  });
  assert.match(keyOf(service), /^sf_/, 'a ClickHouse that is away stops nothing');
});

test('while it starts every request is answered 503, and /health that it lives', { skip }, async (t) => {
  const { port, server } = await taken(t);
  await once(server.close(), 'close');
  // A broker that takes connections and says nothing: the start waits for it.
  const silent = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const broker = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const child = start(t, { STATEFOLD_DATA_DIR: temporaryDirectory(t), PORT: port, KAFKA_BROKERS: broker });
  const url = `http://127.0.0.1:${port}`;
  await until(() => accepts(Number(port)));
  const health = await fetch(`${url}/health`);
  assert.deepEqual([health.status, await health.json()], [200, { status: 'ok' }]);
  for (const [method, path] of [
    ['GET', '/health/ready'],
    ['GET', '/auth/whoami'],
    ['POST', '/events'],
    ['GET', '/no/such/path'],
    ['POST', '/admin/tenants'],
  ] as const) {
    const answer = await fetch(url + path, {
      method,
      headers: { 'x-api-key': 'a-key-that-is-nobody-s' },
      ...(method === 'POST' && { body: '{}' }),
    });
    const problem = (await answer.json()) as Record<string, unknown>;
    assert.deepEqual(
      [path, answer.status, answer.headers.get('retry-after'), problem['code'], problem['retryable']],
      [path, 503, '1', 'UNAVAILABLE', true],
    );
    assert.match(String(problem['detail']), /is starting/);
  }
  const ready = async (): Promise<{ readonly detail: string; readonly checks: object }> =>
    (await (await fetch(`${url}/health/ready`)).json()) as { detail: string; checks: object };
  // What it waits for is told as soon as it is known.
  await until(async () => 'log' in (await ready()).checks);
  const { detail, checks } = await ready();
  assert.deepEqual(checks, { log: 'down' });
  assert.match(detail, /its log can not be reached yet/);
  // Another process that still takes this one for the owner goes on to the next.
  assert.equal(
    (await fetch(`${url}/events`, { method: 'POST', headers: { 'statefold-forwarded': '1' } })).headers.get(
      'statefold-not-owner',
    ),
    '1',
  );
  const socket = new WebSocket(`${url}/projections/p/stream`);
  socket.on('error', () => undefined);
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number }];
  assert.equal(response.statusCode, 503);
  socket.terminate();
  child.kill('SIGTERM');
  await once(child, 'exit');
});

test('a start says how a lost key is replaced, and what it says works as pasted', { skip }, async (t) => {
  // A folder whose name a shell would split.
  const dataDirectory = join(temporaryDirectory(t), "the data of O'Brien");
  const first = await startService(t, { dataDirectory, env: WITHOUT_KEYS });
  const shell = async (script: string): Promise<{ code: number | null; out: string; err: string }> =>
    ending(
      spawn('sh', ['-eu', '-c', script], {
        cwd: ROOT,
        env: {
          PATH: `${join(process.execPath, '..')}${delimiter}${process.env['PATH'] ?? ''}`,
          HOME: process.env['HOME'],
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    );
  const commands = (service: Service): string =>
    service.output
      .split('\n')
      .filter((line) => line.startsWith('  '))
      .join('\n');
  const pasted = await shell(commands(first));
  assert.equal((JSON.parse(pasted.out) as { version: number }).version, 1, pasted.err);
  // The README's first append.
  const api = new Api(first, keyOf(first));
  assert.equal(
    (await api.post('/events', { aggregateId: 'account-1', eventType: 'Opened', data: {}, expectedVersion: 0 })).status,
    201,
  );
  const exported = keyOf(first);
  await first.stop();

  // A second start, in a terminal without the key, on another port.
  const second = await startService(t, { dataDirectory, env: WITHOUT_KEYS });
  const [, replace = ''] = /^ {2}(.*keys create default)$/m.exec(second.output) ?? [];
  assert.match(replace, /^STATEFOLD_URL=http:\/\/127\.0\.0\.1:\d+ STATEFOLD_DATA_DIR='.*' npx statefold /);
  const made = await shell(replace);
  const [, replaced = ''] = /^apiKey +(sf_\S+)$/m.exec(made.out) ?? [];
  assert.equal((await new Api(second, replaced).get('/auth/whoami')).status, 200, made.err);
  const hint = commands(second).replace(`  ${replace}`, `  export STATEFOLD_API_KEY=${replaced}`);
  const again = await shell(hint);
  assert.equal((JSON.parse(again.out) as { version: number }).version, 2, again.err);
  await second.stop();

  // A third, in the terminal where the first key was exported: nothing is made, and the hint uses the variable.
  const third = await startService(t, {
    dataDirectory,
    env: { ...WITHOUT_KEYS, STATEFOLD_API_KEY: exported },
  });
  assert.doesNotMatch(third.output, /sf_|keys create/);
  const used = await shell(`export STATEFOLD_API_KEY=${exported}\n${commands(third)}`);
  assert.equal((JSON.parse(used.out) as { version: number }).version, 3, used.err);
  const adminKey = readFileSync(join(dataDirectory, 'admin-key'), 'utf8').trim();
  const { keys } = (await third.get('/admin/tenants/default/keys', { headers: { 'x-admin-key': adminKey } })).json<{
    keys: unknown[];
  }>();
  assert.equal(keys.length, 2);
  await third.stop();
});

test('a misspelt setting is told in the log, with the nearest name', { skip }, async (t) => {
  const service = await startService(t, {
    env: { WEBHOOK_ALLOW_PRIVAT: 'true', STATEFOLD_API_KY: 'a-secret-that-is-not-shown' },
  });
  const warned = service.output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, string>)
    .filter((line) => 'variable' in line);
  assert.deepEqual(
    warned.map(({ level, variable, nearest }) => [level, variable, nearest]),
    [
      ['warn', 'STATEFOLD_API_KY', 'STATEFOLD_API_KEY'],
      ['warn', 'WEBHOOK_ALLOW_PRIVAT', 'WEBHOOK_ALLOW_PRIVATE'],
    ],
  );
  assert.doesNotMatch(service.output, /is-not-shown/);
});

test('the program helps, tells its version, and refuses what it does not know', { skip }, async (t) => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const directory = temporaryDirectory(t);
  const cases: [args: string[], code: number, out: RegExp, err: RegExp][] = [
    [[], 1, /^$/, /^Usage: statefold/],
    [['serve', '--help'], 0, /^Usage: statefold serve [^]*--unsafe-no-sandbox[^]*STATEFOLD_DATA_DIR/, /^$/],
    [['serve', '--version'], 0, new RegExp(`^${version.replaceAll('.', '\\.')}\n$`), /^$/],
    [
      ['serve', '--unsafe-no-sandbx'],
      1,
      /^$/,
      /^error: unknown option '--unsafe-no-sandbx'\n\(Did you mean --unsafe-no-sandbox\?\)\nUsage: statefold serve \[options\]\n`statefold serve --help` says more\.\n$/,
    ],
    [['serve', 'now'], 1, /^$/, /^error: too many arguments/],
  ];
  for (const [args, code, out, err] of cases) {
    const ended = await ending(start(t, { STATEFOLD_DATA_DIR: join(directory, 'data') }, undefined, args));
    assert.equal(ended.code, code, `${args.join(' ')}: ${ended.err}`);
    assert.match(ended.out, out);
    assert.match(ended.err, err);
  }
  assert.equal(existsSync(join(directory, 'data')), false);
});
