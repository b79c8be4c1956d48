import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import test from 'node:test';
import { ZipArchive } from 'archiver';
import { Api, form, problem, success, type Listed } from '../support/api.js';
import { rawRequest, requestBytes } from '../support/api-raw.js';
import { tally, totals } from '../support/csharp.js';
import { API_KEY, startService, until } from '../support/service.js';

const MIB = 1024 * 1024;
const KEY = ['X-API-Key', API_KEY] as const;
const JSON_TYPE = ['Content-Type', 'application/json'] as const;

async function zip(entries: (archive: ZipArchive) => void): Promise<Buffer> {
  const archive = new ZipArchive({ zlib: { level: 9 } });
  const chunks: Buffer[] = [];
  archive.on('data', (chunk: Buffer) => chunks.push(chunk));
  entries(archive);
  await archive.finalize();
  return Buffer.concat(chunks);
}

test('bad input', async (t) => {
  const service = await startService(t, { env: { HEADERS_TIMEOUT_MS: '1500', REQUEST_TIMEOUT_MS: '2500' } });
  const api = new Api(service);
  const residentBytes = (): number =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) * 1024;
  const append = (
    raw: Buffer | string,
    headers: Record<string, string> = {},
    path = '/events',
  ): ReturnType<Api['request']> =>
    api.request('POST', path, { raw, headers: { 'content-type': 'application/json', ...headers } });
  const good = '{"aggregateId":"good-1","eventType":"A","data":{}}';
  success(await append(good), 201);
  const before = residentBytes();

  await t.test('bodies that are not what they should be', async () => {
    for (const body of [
      '',
      ' ',
      '{',
      'x',
      '{"a":1}}',
      `${good} x`,
      '{"a":01}',
      "{'a':1}",
      '{"a":1,}',
      '{"a":NaN}',
      '{"a":+1}',
      '{"a":.5}',
      '{"a":1.}',
      '{"a":"\t"}',
      '{"a":"\\x"}',
      '{"a":"\\u12"}',
      '\ufeff{}',
      '{"a":1e}',
      '{,}',
      '[1',
      '"a',
      'nul',
      '/**/{}',
      '\u0000',
    ])
      assert.match(problem(await append(body), 400, 'INVALID_REQUEST').detail, /JSON/, JSON.stringify(body));
    for (const body of ['null', '1', '"x"', '[]', 'true', `[${good}]`])
      problem(await append(body), 400, 'INVALID_REQUEST');
    for (const bytes of [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80]]) {
      const refused = problem(
        await append(
          Buffer.concat([
            Buffer.from('{"aggregateId":"bad-1","eventType":"A","data":{"x":"'),
            Buffer.from(bytes),
            Buffer.from('"}}'),
          ]),
        ),
        400,
        'INVALID_REQUEST',
      );
      assert.match(refused.detail, /UTF-8.*(byte|offset|position)/i);
    }
    for (const lone of ['\\ud800', '\\udc00', '\\ud800x', '\\ud800\\ud800', '\\udc00\\ud800']) {
      for (const body of [
        `{"aggregateId":"bad-1","eventType":"A","data":{"x":"${lone}"}}`,
        `{"aggregateId":"bad-1","eventType":"A","data":{"${lone}":1}}`,
        `{"aggregateId":"bad-1","eventType":"A","data":{},"metadata":{"x":"${lone}"}}`,
        `{"aggregateId":"${lone}","eventType":"A","data":{}}`,
      ])
        assert.match(problem(await append(body), 400, 'INVALID_REQUEST').detail, /surrogate/i);
    }
    const missing = problem(await append('{}'), 400, 'INVALID_REQUEST');
    assert.deepEqual(
      (missing['errors'] as { pointer: string; message: string }[]).map(({ pointer, message }) => [pointer, message]),
      [
        ['/aggregateId', 'is required'],
        ['/eventType', 'is required'],
        ['/data', 'is required'],
      ],
    );
    assert.deepEqual(
      (problem(await append('{}', {}, '/events/batch'), 400, 'INVALID_REQUEST')['errors'] as { pointer: string }[]).map(
        ({ pointer }) => pointer,
      ),
      ['/aggregateId', '/events'],
    );
    const sound = { aggregateId: 'bad-1', eventType: 'A', data: {} };
    for (const [field, values] of Object.entries({
      aggregateId: [1, null, {}, []],
      eventType: [1, null, {}],
      data: [1, null, 'x', [], true],
      metadata: [1, null, 'x', []],
      correlationId: [1, null, {}],
      causationId: [1, null, []],
      aggregateType: [1, null, {}],
    }))
      for (const value of values)
        assert.equal(
          (
            problem(await append(JSON.stringify({ ...sound, [field]: value })), 400, 'INVALID_REQUEST')['errors'] as {
              pointer: string;
            }[]
          )[0]?.pointer,
          `/${field}`,
        );
    for (const events of [null, {}, 'x', [1], [null], [[]], [{}], [{ eventType: 'A' }], [{ data: {} }]])
      problem(
        await append(JSON.stringify({ aggregateId: 'bad-1', events }), {}, '/events/batch'),
        400,
        'INVALID_REQUEST',
      );
    problem(await api.get('/events/bad-1'), 404, 'NOT_FOUND');
  });

  await t.test('depth and size, at the limit and past it', async () => {
    const deep = (levels: number): string =>
      `{"aggregateId":"deep-1","eventType":"A","data":{"d":${'['.repeat(levels)}${']'.repeat(levels)}}}`;
    success(await append(deep(62)), 201);
    assert.match(problem(await append(deep(63)), 400, 'INVALID_REQUEST').detail, /64/);
    problem(await append(deep(300_000)), 400, 'INVALID_REQUEST');
    problem(await append(`{"unknown":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`), 400, 'INVALID_REQUEST');
    const sized = (bytes: number): string => {
      const head = '{"aggregateId":"size-1","eventType":"A","data":{"x":"';
      return `${head}${'x'.repeat(bytes - head.length - 3)}"}}`;
    };
    success(await append(sized(MIB)), 201);
    assert.match(problem(await append(sized(MIB + 1)), 413, 'PAYLOAD_TOO_LARGE').detail, /1048576/);
    problem(await append(sized(12 * MIB)), 413, 'PAYLOAD_TOO_LARGE');
    problem(await api.put('/aggregate-types/a', { reducerId: 'x'.repeat(2 * MIB) }), 413, 'PAYLOAD_TOO_LARGE');
    const keys = `{"aggregateId":"keys-1","eventType":"A","data":{${Array.from({ length: 80_000 }, (_, i) => `"${i}":0`).join(',')}}}`;
    success(await append(keys), 201);
    assert.equal((await api.read<Listed>('/events/keys-1')).events.length, 1);
  });

  await t.test('types and encodings of bodies', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonx',
      'application/json; charset=latin1',
      'application/problem+json',
    ])
      problem(await append(good, { 'content-type': type }), 415, 'UNSUPPORTED_MEDIA_TYPE');
    for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset="UTF-8"'])
      success(await append(good, { 'content-type': type }), 201);
    for (const encoding of ['gzip', 'br', 'deflate'])
      problem(await append(good, { 'content-encoding': encoding }), 415, 'UNSUPPORTED_MEDIA_TYPE');
    assert.equal((await rawRequest(service.url, requestBytes('POST', '/events', [KEY], good))).status, 415);
    problem(
      await api.request('PUT', '/aggregate-types/a', { raw: '{}', headers: { 'content-type': 'text/plain' } }),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    );
    problem(
      await api.request('POST', '/reducers/upload', { raw: '{}', headers: { 'content-type': 'application/json' } }),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    );
  });

  await t.test('heads of requests that no library sends', async () => {
    const status = async (bytes: Buffer | string): Promise<number> => (await rawRequest(service.url, bytes)).status;
    assert.equal(await status(requestBytes('GET', '/auth/whoami', [KEY])), 200);
    assert.equal(await status(requestBytes('GET', '/auth/whoami', [KEY, KEY])), 401);
    assert.equal(await status(requestBytes('GET', '/auth/whoami', [KEY, ['X-API-Key', 'other']])), 401);
    assert.equal(await status(requestBytes('GET', '/auth/whoami', [['X-API-Key', `${API_KEY}, ${API_KEY}`]])), 401);
    assert.equal(
      await status(
        requestBytes(
          'POST',
          '/events',
          [KEY, JSON_TYPE, ['Content-Length', String(good.length)], ['Content-Length', '3']],
          good,
        ),
      ),
      400,
    );
    assert.equal(
      await status(
        requestBytes(
          'POST',
          '/events',
          [KEY, JSON_TYPE, ['Content-Length', String(good.length)], ['Transfer-Encoding', 'chunked']],
          good,
        ),
      ),
      400,
    );
    assert.equal(
      await status(requestBytes('POST', '/events', [KEY, JSON_TYPE, ['Transfer-Encoding', 'chunked']], 'zz\r\n')),
      400,
    );
    assert.equal(
      await status(
        requestBytes(
          'POST',
          '/events',
          [KEY, JSON_TYPE, ['Transfer-Encoding', 'chunked']],
          `${good.length.toString(16)}\r\n${good}\r\n0\r\n\r\n`,
        ),
      ),
      201,
    );
    assert.equal(
      await status(
        requestBytes('POST', '/events', [KEY, JSON_TYPE, ['Idempotency-Key', 'a'], ['Idempotency-Key', 'b']], good),
      ),
      400,
    );
    assert.equal(await status(requestBytes('GET', '/auth/whoami', [KEY, ['X-Big', 'x'.repeat(64 * 1024)]])), 431);
    assert.equal(await status('GET / HTTP/9.9\r\n\r\n'), 400);
    assert.equal(await status('\u0016\u0003\u0001 not http\r\n\r\n'), 400);
    assert.equal(await status(requestBytes('GET', '/auth/whoami', [KEY, ['X-Evil', 'a\rb']])), 400);
    assert.equal(await status(requestBytes('BREW', '/events', [KEY])), 400);
    assert.equal(await status(requestBytes('GET', '/events/%E0%A4%A', [KEY])), 400);
    assert.equal(await status(requestBytes('GET', '/events/a%00b', [KEY])), 400);
    assert.equal(await status(requestBytes('GET', `/events/${'x'.repeat(257)}`, [KEY])), 400);
    assert.equal(await status(requestBytes('GET', '/../../etc/passwd', [KEY])), 404);
    const forged = await rawRequest(
      service.url,
      requestBytes('GET', '/nothing', [KEY, ['X-Request-Id', '<script>"\\']]),
    );
    assert.doesNotMatch(forged.head + forged.body, /<script>/);
  });

  await t.test('clients that are slow, or leave', async () => {
    const { hostname, port } = new URL(service.url);
    const slow = await Promise.all(
      [
        'POST /events HTTP/1.1\r\nHost: x\r\n',
        `POST /events HTTP/1.1\r\nHost: x\r\nX-API-Key: ${API_KEY}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
      ].map(
        (bytes) =>
          new Promise<string>((resolve) => {
            const socket = connect(Number(port), hostname, () => socket.write(bytes));
            let text = '';
            socket.on('data', (chunk) => (text += chunk.toString()));
            socket.on('error', () => undefined);
            socket.on('close', () => resolve(text));
          }),
      ),
    );
    for (const text of slow) assert.match(text, /^HTTP\/1\.1 408/);
    for (let i = 0; i < 50; i++) {
      const socket = connect(Number(port), hostname, () => {
        socket.write(
          requestBytes('POST', '/events', [KEY, JSON_TYPE, ['Content-Length', '1000']], '{"aggregateId":"left-1",'),
        );
        socket.destroy();
      });
      socket.on('error', () => undefined);
    }
    assert.equal((await api.get('/health', { key: null })).status, 200);
    problem(await api.get('/events/left-1'), 404, 'NOT_FOUND');
  });

  await t.test('archives of every nasty kind', async () => {
    const text = tally('zip');
    const named = (name: string): Promise<Buffer> =>
      zip((archive) =>
        archive.append(text, { name: 'aa/bb/Good.cs' }).append(text.replaceAll('Tally', 'Other'), { name }),
      );
    /** The same archive with other bytes for a name of the same length. */
    const renamed = async (from: string, to: string): Promise<Buffer> => {
      assert.equal(to.length, from.length);
      return Buffer.from((await named(from)).toString('latin1').replaceAll(from, to), 'latin1');
    };
    const refused = async (what: string, archive: Buffer, code = 'INVALID_ARCHIVE', status = 400): Promise<void> => {
      const answer = await api.upload('reducers', { 'sources.zip': archive });
      assert.equal(problem(answer, status, code).status, status, what);
    };
    await refused('traversal', await renamed('xx/xx/Bad.cs', '../../Bad.cs'));
    await refused('absolute', await renamed('xx/xx/Bad.cs', '/etc/Evil.cs'));
    await refused('backslash', await renamed('xx/xx/Bad.cs', 'xx\\xx\\Bad.cs'));
    await refused('drive', await renamed('xx/xx/Bad.cs', 'C:/xx/Bad.cs'));
    await refused('control character', await renamed('xx/xx/Bad.cs', 'xx/x\u0000/Bad.cs'));
    await refused('twice', await renamed('xx/xx/Good.cs', 'aa/bb/Good.cs'));
    await refused('twice but for case', await renamed('xx/xx/Good.cs', 'AA/bb/good.cs'));
    await refused(
      'symlink',
      await zip((archive) => archive.append(text, { name: 'Good.cs' }).symlink('Link.cs', '/etc/passwd')),
    );
    await refused('bomb', await zip((archive) => archive.append(Buffer.alloc(25 * MIB), { name: 'Bomb.cs' })));
    await refused('ratio', await zip((archive) => archive.append(Buffer.alloc(10 * MIB), { name: 'Bomb.cs' })));
    await refused(
      'too many',
      await zip((archive) => {
        for (let i = 0; i < 501; i++) archive.append('', { name: `${i}.cs` });
      }),
    );
    await refused('no source', await zip((archive) => archive.append('x', { name: 'readme.txt' })));
    await refused('empty', await zip(() => undefined));
    const sound = await named('cc/dd/Next.cs');
    await refused('cut', sound.subarray(0, sound.length - 30));
    const encrypted = Buffer.from(sound);
    for (let at = encrypted.indexOf('PK\u0001\u0002'); at >= 0; at = encrypted.indexOf('PK\u0001\u0002', at + 4))
      encrypted[at + 8] = (encrypted[at + 8] ?? 0) | 1;
    await refused('encrypted', encrypted);
    const damaged = Buffer.from(sound);
    damaged[sound.indexOf('Good.cs') + 40] = (damaged[sound.indexOf('Good.cs') + 40] ?? 0) ^ 0xff;
    await refused('damaged', damaged);
    await refused(
      'not UTF-8',
      await zip((archive) => archive.append(Buffer.from([0xff, 0xfe, 0x41]), { name: 'A.cs' })),
    );
    await refused('too large', Buffer.concat([sound, Buffer.alloc(6 * MIB)]), 'PAYLOAD_TOO_LARGE', 413);
    problem(await api.upload('reducers', { 'notes.txt': 'x' }), 400, 'INVALID_ARCHIVE');
    problem(await api.upload('reducers', {}), 400, 'INVALID_ARCHIVE');
    problem(await api.upload('reducers', { 'a.zip': sound, 'B.cs': text }), 400, 'INVALID_ARCHIVE');
    problem(await api.upload('reducers', { 'A.cs': text }, { config: '{}' }), 400, 'INVALID_REQUEST');
    problem(await api.upload('projections', { 'A.cs': totals() }, { unknown: 'x' }), 400, 'INVALID_REQUEST');
    const twice = form({ 'A.cs': totals() }, { config: '{}' });
    twice.append('config', '{}');
    problem(await api.request('POST', '/projections/upload', { raw: twice }), 400, 'INVALID_REQUEST');
    for (const body of [
      '',
      '--x\r\n',
      '--x\r\nContent-Disposition: form-data; name="file"; filename="A.cs"\r\n\r\nclass A {}',
    ])
      problem(
        await api.request('POST', '/reducers/upload', {
          raw: body,
          headers: { 'content-type': 'multipart/form-data; boundary=x' },
        }),
        400,
        body.includes('class') ? 'INVALID_REQUEST' : 'INVALID_ARCHIVE',
      );
    problem(
      await api.request('POST', '/reducers/upload', { raw: 'x', headers: { 'content-type': 'multipart/form-data' } }),
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    );
    assert.deepEqual((await api.read<{ reducers: object[] }>('/reducers')).reducers, []);
    const { reducerId } = success(
      await api.upload('reducers', { 'sources.zip': await named('cc/dd/Next.txt') }),
      202,
    ).json<{ reducerId: string }>();
    assert.equal((await api.compiled<{ status: string }>('reducers', reducerId)).status, 'compiled');
  });

  await t.test('the service has stayed what it was', async () => {
    assert.equal((await append(good)).status, 201);
    // Garbage of the requests above is collected in time; a leak of their bodies would be far past this.
    await until(() => residentBytes() - before < 250 * MIB);
    assert.deepEqual(
      service.output
        .split('\n')
        .filter((line) => /"level":"(error|fatal)"/.test(line))
        .slice(0, 1),
      [],
    );
  });
});
