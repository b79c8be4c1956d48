import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { runProgram } from '../../src/cli/program.js';
import { StartupError } from '../../src/core/startup-error.js';
import { runSql } from '../../src/cli/sql.js';

async function listen(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function statefold(
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ code: number; out: string; err: string }> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const outputs = Promise.all([text(stdout), text(stderr)]);
  const code = await runProgram(args, { env, stdin: Readable.from([]), stdout, stderr });
  stdout.end();
  stderr.end();
  const [out, err] = await outputs;
  return { code, out, err };
}

test('what an owner can put right is said in one sentence, with exit code 1', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-cli-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const other = await listen(t, (_, response) => response.end('<html>'));
  // A port that was just free and is closed again: nothing listens there.
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address() as AddressInfo;
  await once(gone.close(), 'close');

  const empty = { STATEFOLD_DATA_DIR: directory };
  const cases: [env: Record<string, string>, args: string[], expected: RegExp][] = [
    [
      { ...empty, PORT: String(port) },
      ['health'],
      new RegExp(`^Nothing listens at http://127\\.0\\.0\\.1:${port}: start the service with \`npm start\`.*\\n$`),
    ],
    [
      { ...empty, HOST: '::', PORT: String(port) },
      ['health'],
      new RegExp(`^Nothing listens at http://127\\.0\\.0\\.1:${port}`),
    ],
    [empty, ['tenants', 'list'], /^There is no admin key in .*admin-key: start the service once/],
    [{ ...empty, PORT: 'eighty' }, ['health'], /^PORT must be a whole number/],
    [empty, ['health', '--url', 'ftp://a'], /^ftp:\/\/a is not an http or https URL/],
    [empty, ['health', '--url', other], /is not a Statefold service/],
    [empty, ['tenants', 'destroy'], /unknown command 'destroy'/],
    [empty, ['keys', 'revoke', 'acme'], /missing required argument 'keyId'/],
  ];
  for (const [env, args, expected] of cases) {
    const { code, out, err } = await statefold(env, ...args);
    assert.deepEqual({ args, code, out }, { args, code: 1, out: '' });
    assert.match(err, expected);
    assert.doesNotMatch(err, /\n {4}at /, 'no stack');
  }
  const { code, out } = await statefold(empty, '--help');
  assert.equal(code, 0);
  for (const command of ['serve', 'tenants', 'keys', 'sql', 'rebuild-read-store', 'health'])
    assert.match(out, new RegExp(`^ {2}${command}`, 'm'));
});

test('what no command foresaw is said without a stack, and with one where that is asked for', async () => {
  const failing = async (env: Record<string, string>, failure: Error): Promise<string> => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const backups = { backUp: () => Promise.reject(failure), restore: () => Promise.reject(failure) };
    const code = await runProgram(['backup', 'x'], { env, stdin: Readable.from([]), stdout, stderr, backups });
    assert.equal(code, 1);
    stderr.end();
    return text(stderr);
  };
  const odd = new Error('a page is missing.');
  assert.equal(
    await failing({}, odd),
    'The command failed, and does not know of this failure: a page is missing. LOG_LEVEL=debug shows where it happened.\n',
  );
  assert.match(await failing({ LOG_LEVEL: 'debug' }, odd), /^Error: a page is missing\.\n {4}at /);
  assert.equal(await failing({}, new StartupError('PORT is none.')), 'PORT is none.\n');
});

test('a reader that has enough of a long list ends the command quietly, however late that is known', async (t) => {
  const tenants = Array.from({ length: 100 }, (_, i) => ({
    tenantId: `t-${i}`,
    name: 'x'.repeat(1000),
    createdAt: '',
  }));
  const url = await listen(t, (_, response) => response.end(JSON.stringify({ tenants })));
  let later = (): void => assert.fail('nothing was written');
  // As a pipe that is full, whose reader goes away only then.
  const gone = (): Writable =>
    new Writable({
      write(_part, _encoding, done) {
        later = () => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
      },
    });
  const env = { STATEFOLD_URL: url, STATEFOLD_ADMIN_KEY: 'a'.repeat(20) };
  for (const [args, expected] of [
    [['tenants', 'list'], 0],
    [['keys', 'revoke'], 1],
  ] as const) {
    const [stdout, stderr] = [gone(), gone()];
    let code: number | undefined;
    const running = runProgram(args, { env, stdin: Readable.from([]), stdout, stderr }).then((its) => (code = its));
    while (stdout.writableLength + stderr.writableLength === 0) await nextTurn();
    for (let turns = 0; turns < 10; turns++) await nextTurn();
    assert.equal(code, undefined, 'it ended before what it wrote was taken');
    later();
    assert.equal(await running, expected);
  }
});

test('the admin key of the settings goes before the file, problems are shown with their fields, and lists are read to their end', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-cli-'));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, 'admin-key'), 'from-the-file-of-the-data-directory\n');
  const seen: (string | undefined)[] = [];
  const url = await listen(t, (request, response) => {
    seen.push(`${request.method} ${request.url} ${String(request.headers['x-admin-key'])}`);
    if (request.method === 'POST') {
      const errors = [{ pointer: '/name', message: 'must be shorter' }];
      response
        .writeHead(400, { 'Content-Type': 'application/problem+json' })
        .end(JSON.stringify({ status: 400, code: 'INVALID_REQUEST', detail: 'The body is invalid.', errors }));
    } else if (request.url?.includes('cursor=') === true)
      response.end(JSON.stringify({ tenants: [{ tenantId: 'b' }] }));
    else response.end(JSON.stringify({ tenants: [{ tenantId: 'a' }], nextCursor: 'x/+' }));
  });
  const env = { STATEFOLD_DATA_DIR: directory, STATEFOLD_URL: `${url}/` };
  assert.deepEqual(JSON.parse((await statefold(env, 'tenants', 'list', '--json')).out), [
    { tenantId: 'a' },
    { tenantId: 'b' },
  ]);
  const { code, err } = await statefold(
    { ...env, STATEFOLD_ADMIN_KEY: 'from-the-settings-of-the-owner' },
    'tenants',
    'create',
    'x',
  );
  assert.deepEqual(
    { code, err },
    { code: 1, err: 'The body is invalid. (INVALID_REQUEST)\n  /name must be shorter\n' },
  );
  assert.deepEqual(seen, [
    'GET /admin/tenants?limit=500 from-the-file-of-the-data-directory',
    'GET /admin/tenants?limit=500&cursor=x%2F%2B from-the-file-of-the-data-directory',
    'POST /admin/tenants from-the-settings-of-the-owner',
  ]);
});

test('an answer of the read store that fails halfway is written up to there, wherever its pieces are cut', async (t) => {
  const tag = 'abcdefghijklmnop';
  const rows = 'one\ntwo\n';
  const whole = Buffer.from(
    `${rows}\r\n__exception__\r\n${tag}\r\nCode: 395. DB::Exception: too far. (FUNCTION_THROW)\n51 ${tag}\r\n__exception__\r\n`,
  );
  let cut = 0;
  let ends = false;
  const url = await listen(t, (_, response) => {
    response.setHeader('X-ClickHouse-Exception-Tag', tag);
    response.write(whole.subarray(0, cut), () =>
      response.write(whole.subarray(cut), () => {
        if (ends) response.end();
        else response.destroy();
      }),
    );
  });
  const access = { url, user: 'u', password: 'p', database: 'd' };
  for (ends of [true, false])
    for (cut = 1; cut < whole.length; cut += 3) {
      const output = new PassThrough();
      await assert.rejects(
        runSql(access, 'SELECT 1', 'TabSeparated', output),
        { message: 'Code: 395. DB::Exception: too far. (FUNCTION_THROW)' },
        `cut at ${cut}`,
      );
      output.end();
      assert.equal(await text(output), rows, `cut at ${cut}`);
    }
});

test('why an answer failed halfway is told also where the output waits for its reader', async (t) => {
  let taken = (): void => undefined;
  const isTaken = new Promise<void>((resolve) => (taken = resolve));
  const url = await listen(t, (_, response) => {
    response.setHeader('X-ClickHouse-Exception-Tag', 'TAG');
    response.write('1\n2\n'.repeat(100));
    void isTaken.then(() =>
      response.write(
        '\r\n__exception__\r\nTAG\r\nCode: 396. DB::Exception: too much\r\n32 TAG\r\n__exception__\r\n',
        () => response.destroy(),
      ),
    );
  });
  const output = new Writable({ highWaterMark: 1, write: () => taken() });
  await assert.rejects(runSql({ url, user: 'u', password: 'p', database: 'd' }, 'SELECT 1', 'TabSeparated', output), {
    message: 'Code: 396. DB::Exception: too much',
  });
});

test('a slow reader of the output slows the read store, and one that goes away ends the command quietly', async (t) => {
  const chunk = Buffer.alloc(64 * 1024, 'x');
  let sent = 0;
  const url = await listen(t, (_, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(chunk)) sent += chunk.length;
    };
    response.on('drain', more);
    more();
  });
  const access = { url, user: 'u', password: 'p', database: 'd' };
  let taken = 0;
  let release: (() => void) | undefined;
  const output = new Writable({
    write(part: Buffer, _, done) {
      taken += part.length;
      if (taken > 1024 * 1024) release = () => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
      else done();
    },
  });
  const running = runSql(access, 'SELECT 1', 'TabSeparated', output);
  // Until nothing more is sent: what is on the way is bounded by the buffers of both sockets.
  for (let before = -1; release === undefined || before !== sent;) {
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(sent < 32 * 1024 * 1024, `sent ${sent}`);
  release();
  await running;
});

test('a tenant whose key is refused is told what to set, and ClickHouse speaks for itself', async (t) => {
  const answers = [
    { status: 401, code: 'UNAUTHENTICATED', detail: 'The API key is not valid.' },
    { status: 400, code: 'SQL_REFUSED', detail: 'Code: 60. DB::Exception: no such table. (UNKNOWN_TABLE)' },
    { status: 503, code: 'UNAVAILABLE', detail: 'The read store is away' },
  ];
  const url = await listen(t, (_, response) => {
    const { status, ...problem } = answers.shift() ?? assert.fail('asked too often');
    response.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify(problem));
  });
  const env = { STATEFOLD_URL: url, STATEFOLD_API_KEY: 'k'.repeat(20) };
  for (const expected of [
    `The service at ${url} refuses the API key: set STATEFOLD_API_KEY to one of your tenant; \`statefold keys create <tenantId>\` makes one.\n`,
    'Code: 60. DB::Exception: no such table. (UNKNOWN_TABLE)\n',
    'The read store is away (UNAVAILABLE)\n`statefold health` says which part does not work.\n',
  ]) {
    const { code, out, err } = await statefold(env, 'sql', '--tenant', 'SELECT 1');
    assert.deepEqual({ code, out, err }, { code: 1, out: '', err: expected });
  }
});
