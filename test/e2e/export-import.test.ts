import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import { Api, newTenant, problem, success } from '../support/api.js';
import { spawnStatefold, spawnStatefoldFed, statefold } from '../support/cli.js';
import { ADMIN_KEY, sample, startService, temporaryDirectory, until } from '../support/service.js';
import { CLOUD_EVENTS, commandEnv, digestOf, exported, importLines, type Digest } from '../support/transfer.js';

const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '' } = sample('bank');
const code = { 'AccountReducer.cs': reducer, 'Events.cs': events };

interface Line {
  readonly id: string;
  readonly subject: string;
  readonly aggregateversion: number;
  readonly [attribute: string]: unknown;
}
const parsed = (lines: readonly string[]): Line[] => lines.map((line) => JSON.parse(line) as Line);

/** What an event is to its readers, but for its place in a feed. */
async function records(api: Api): Promise<unknown[]> {
  const { events: told } = await api.read<{ events: { position?: number }[] }>('/feed?limit=1000');
  return told.map(({ position: _, ...event }) => event);
}

/** All kinds of appends, and all that an event may carry. */
async function fill(api: Api): Promise<void> {
  for (let n = 0; n < 20; n++)
    success(
      await api.post('/events', { aggregateId: `account-${n % 7}`, eventType: 'Deposited', data: { cents: n } }),
      201,
    );
  success(
    await api.post('/events/batch', {
      aggregateId: 'account-batch',
      aggregateType: 'account',
      correlationId: 'c-1',
      metadata: { by: 'batch' },
      events: [
        { eventType: 'Opened', data: { owner: 'Zoë "Q" \\ 🜚' } },
        {
          eventType: 'Deposited',
          data: { cents: 1 },
          causationId: 'own',
          metadata: { by: 'itself', deep: [{ a: null }] },
        },
      ],
    }),
    201,
  );
  success(
    await api.post('/events/transaction', {
      appends: ['account-1', 'account-batch', 'account-new'].map((aggregateId) => ({
        aggregateId,
        events: [
          { eventType: 'Deposited', data: { cents: 5 } },
          { eventType: 'Deposited', data: { cents: 6 } },
        ],
      })),
      causationId: 'transfer',
    }),
    201,
  );
  success(
    await api.request('POST', '/events', {
      raw: '{"aggregateId":"note-1","eventType":"Noted","data": { "big": 12345678901234567890.10,\n\t"x":1e2 },"metadata":{ "spaces" :  true }}',
      headers: { 'content-type': 'application/json' },
    }),
    201,
  );
}

test('a tenant goes out of a service and into another', async (t) => {
  const folder = temporaryDirectory(t);
  const source = await startService(t);
  const target = await startService(t, {
    env: { BULK_IDLE_MS: '2000', REQUEST_TIMEOUT_MS: '1500', HEADERS_TIMEOUT_MS: '1000' },
  });
  const key = await newTenant(source, { tenantId: 'acme' });
  const from = new Api(source, key);
  await from.deployReducer(code);
  await fill(from);
  const lines = await exported(source, key);
  let original: Digest;

  await t.test('as CloudEvents, which say all that the feed says', async () => {
    const told = (await from.read<{ events: Record<string, unknown>[] }>('/feed?limit=1000')).events;
    assert.equal(lines.length, told.length);
    assert.equal(lines.length, 29);
    for (const [i, line] of parsed(lines).entries()) {
      const { correlationId, causationId, metadata, ...event } = told[i] ?? {};
      assert.deepEqual(line, {
        specversion: '1.0',
        source: '/tenants/acme',
        position: String(event['position']),
        id: event['eventId'],
        type: event['eventType'],
        subject: event['aggregateId'],
        time: event['timestamp'],
        datacontenttype: 'application/json',
        aggregatetype: event['aggregateType'],
        aggregateversion: event['version'],
        ...(correlationId === undefined ? {} : { correlationid: correlationId }),
        ...(causationId === undefined ? {} : { causationid: causationId }),
        ...(metadata === undefined ? {} : { metadata: line['metadata'] }),
        data: event['data'],
      });
      if (metadata !== undefined) assert.deepEqual(JSON.parse(String(line['metadata'])), metadata);
    }
  });

  await t.test('a file is gone on with where it ends, also where it was torn', async () => {
    const file = join(folder, 'acme.ndjson');
    const env = commandEnv(source, key);
    writeFileSync(file, `${lines.slice(0, 9).join('\n')}\n\n${lines[9]?.slice(0, 80)}`);
    const first = await statefold(env, folder, 'export', file, '--json');
    assert.equal(first.code, 0, first.err);
    assert.deepEqual(
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line !== ''),
      lines,
    );
    const again = await statefold(env, folder, 'export', file, '--json');
    assert.equal((JSON.parse(again.out) as { events: number }).events, 0, again.err);
    original = await digestOf(source, key);
    const ofFile = await statefold(env, folder, 'digest', '--file', file, '--json');
    assert.deepEqual(JSON.parse(ofFile.out), { events: original.events, order: original.order });
  });

  await t.test('a file of another tenant is not gone on with', async () => {
    const file = join(folder, 'acme.ndjson');
    const other = await newTenant(source, { tenantId: 'other' });
    for (let n = 0; n < 60; n++) await new Api(source, other).append(`other-${n}`, 'Noted');
    const before = readFileSync(file);
    const refused = await statefold(commandEnv(source, other), folder, 'export', file);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /it is of another tenant, or of what the service was before it was restored/);
    assert.deepEqual(readFileSync(file), before);
  });

  await t.test('a file that is none of an export stays as it is', async () => {
    for (const text of ['notes', 'notes\n', 'notes\nand more', `${lines[0]}\nnotes`]) {
      const file = join(folder, 'notes.txt');
      writeFileSync(file, text);
      const refused = await statefold(commandEnv(source, key), folder, 'export', file);
      assert.equal(refused.code, 1, refused.out);
      assert.match(refused.err, /not one that `statefold export` wrote/);
      assert.equal(readFileSync(file, 'utf8'), text);
    }
  });

  await t.test('a folder, or a file that was cut off, is said to be one', async () => {
    const env = commandEnv(source, key);
    for (const command of [
      ['export', folder],
      ['import', 'acme', folder],
      ['digest', '--file', folder],
    ]) {
      const refused = await statefold(env, folder, ...command);
      assert.deepEqual(refused, { code: 1, out: '', err: `${folder} is a folder: name a file.\n` });
    }
    const file = join(folder, 'cut.ndjson');
    writeFileSync(file, `${lines[0]}\n${lines[1]?.slice(0, 80)}`);
    const { code: exit, err } = await statefold(env, folder, 'digest', '--file', file);
    assert.deepEqual([exit, err], [1, `${file} can't be read to its end: the last line has no end. Was it cut off?\n`]);
  });

  await t.test('a file is gone on with where its last events were erased', async () => {
    const tenant = await newTenant(source, { tenantId: 'lately' });
    const api = new Api(source, tenant);
    const file = join(folder, 'lately.ndjson');
    const exportedNow = async (): Promise<unknown[]> => {
      const { code: exit, err } = await statefold(commandEnv(source, tenant), folder, 'export', file);
      assert.equal(exit, 0, err);
      return parsed(readFileSync(file, 'utf8').trim().split('\n')).map(({ subject }) => subject);
    };
    for (const id of ['kept-1', 'gone-1', 'gone-2', 'gone-1']) await api.append(id, 'Noted');
    await exportedNow();
    for (const id of ['gone-1', 'gone-2']) success(await api.request('DELETE', `/aggregates/${id}`), 202);
    await api.append('kept-2', 'Noted');
    assert.deepEqual(await exportedNow(), ['kept-1', 'gone-1', 'gone-2', 'gone-1', 'kept-2']);
    assert.equal((await exportedNow()).length, 5);
    // Nothing that it has is there any more.
    for (const id of ['kept-1', 'kept-2']) success(await api.request('DELETE', `/aggregates/${id}`), 202);
    await api.append('kept-3', 'Noted');
    assert.equal((await exportedNow()).at(-1), 'kept-3');
  });

  await t.test('into a tenant with the same ids, versions, times, order, contexts and states', async () => {
    const there = await newTenant(target, { tenantId: 'moved' });
    const to = new Api(target, there);
    await to.deployReducer(code);
    const {
      code: exit,
      out,
      err,
    } = await statefold(commandEnv(target, there), folder, 'import', 'moved', join(folder, 'acme.ndjson'), '--json');
    assert.equal(exit, 0, err);
    assert.equal((JSON.parse(out) as { events: number }).events, lines.length);
    assert.deepEqual(await records(to), await records(from));
    assert.deepEqual(await digestOf(target, there), original);
    // The bytes of data and metadata are those that were sent.
    const kept = (all: readonly string[]): string[] => all.map((line) => line.slice(line.indexOf(',"id":')));
    assert.deepEqual(kept(await exported(target, there)), kept(lines));
    const next = success(
      await to.post('/events', {
        aggregateId: 'account-1',
        expectedVersion: 5,
        eventType: 'Deposited',
        data: { cents: 1 },
      }),
      201,
    );
    assert.equal(next.json()['version'], 6);
    assert.notDeepEqual(await digestOf(target, there), original, 'the digest tells nothing apart');
    problem(await importLines(target, 'moved', lines), 409, 'TENANT_NOT_EMPTY');
  });

  await t.test('not into a tenant whose endpoints would be sent its history', async () => {
    const there = new Api(target, await newTenant(target, { tenantId: 'told' }));
    const made = [
      await there.post('/webhooks/endpoints', { url: 'http://127.0.0.1:9/', source: { feed: {} } }),
      await there.post('/webhooks/endpoints', { url: 'http://127.0.0.1:9/other', source: { feed: {} } }),
    ].map((answer) => success(answer, 201).json<{ endpointId: string }>().endpointId);
    for (const endpointId of made) {
      const { detail } = problem(await importLines(target, 'told', lines), 409, 'TENANT_NOT_EMPTY');
      assert.match(detail, new RegExp(`delete .*${endpointId}`));
      // It is served as before.
      assert.equal((await there.get('/feed')).status, 200);
      success(await there.request('DELETE', `/webhooks/endpoints/${endpointId}`), 204);
    }
    success(await importLines(target, 'told', lines), 200);
    success(await there.post('/webhooks/endpoints', { url: 'http://127.0.0.1:9/', source: { feed: {} } }), 201);
  });

  await t.test('of several partitions, in the same order', async () => {
    const there = await newTenant(target, { tenantId: 'parted', partitions: 3 });
    await new Api(target, there).deployReducer(code);
    success(await importLines(target, 'parted', lines), 200);
    assert.deepEqual(await digestOf(target, there), original);
    success(
      await new Api(target, there).post('/events', {
        aggregateId: 'account-2',
        eventType: 'Deposited',
        data: { cents: 1 },
      }),
      201,
    );
  });

  await t.test('past its quotas and schemas', async () => {
    const there = await newTenant(target, { tenantId: 'narrow' });
    const to = new Api(target, there);
    success(
      await to.request('PUT', '/event-types/Deposited', { body: { schema: { type: 'object', required: ['never'] } } }),
      200,
    );
    success(
      await new Api(target, null).request('PATCH', '/admin/tenants/narrow', {
        body: { quotas: { storageBytes: 0, eventsPerSecond: 1 } },
        headers: { 'x-admin-key': ADMIN_KEY },
      }),
      200,
    );
    success(await importLines(target, 'narrow', lines), 200);
    const { order } = await digestOf(target, there);
    assert.equal(order, original.order);
  });

  await t.test('a bad line ends it with its number, and nothing stays', async () => {
    const there = await newTenant(target, { tenantId: 'strict' });
    const to = new Api(target, there);
    const [line = ''] = lines.slice(-1);
    const whole = JSON.parse(line) as Record<string, unknown>;
    const bad = (changed: object): string => JSON.stringify({ ...whole, ...changed });
    const impossible = (time: string): [line: string, expected: RegExp] => [
      bad({ time }),
      new RegExp(`time is ${time.replace('+', '\\+')}, which no calendar or clock has`),
    ];
    const cases: [line: string, expected: RegExp][] = [
      ['{"specversion":', /not valid JSON/],
      ['[]', /must be a JSON object/],
      [bad({ specversion: '0.3' }), /specversion must be "1\.0"/],
      [bad({ specversion: undefined }), /specversion is missing/],
      [bad({ id: 'not-a-uuid' }), /id must be a UUID/],
      [bad({ id: parsed(lines)[3]?.id }), /id is that of an event before it/],
      [bad({ subject: undefined }), /subject is missing/],
      [
        bad({ subject: 'note-2', aggregateversion: 2 }),
        /aggregateversion is 2, but the first event of aggregate 'note-2' has version 1/,
      ],
      [
        bad({ subject: 'account-1', aggregatetype: 'account', aggregateversion: 9 }),
        /aggregateversion is 9, but aggregate 'account-1' is at version 5, so the next event has 6/,
      ],
      [
        bad({ subject: 'account-1', aggregatetype: 'account', aggregateversion: 6, time: '2001-01-01T00:00:00Z' }),
        /later time before this one/,
      ],
      [
        bad({ subject: 'account-1', aggregatetype: 'person', aggregateversion: 6 }),
        /is of type 'account', not 'person'/,
      ],
      [bad({ aggregateversion: '1' }), /aggregateversion must be a whole number/],
      [bad({ time: 'yesterday' }), /time must be a time like/],
      [bad({ time: '2026-01-31T09:30:00.123456Z' }), /with milliseconds at most/],
      ...['2026-02-30T09:30:00Z', '2025-02-29T00:00:00Z', '2026-13-01T00:00:00Z', '2026-01-00T00:00:00Z'].map(
        impossible,
      ),
      ...['2026-01-31T24:00:00Z', '2026-01-31T25:00:00Z', '2026-01-31T09:60:00Z', '2026-01-31T09:30:60Z'].map(
        impossible,
      ),
      ...['2026-01-31T09:30:00+24:00', '2026-01-31T09:30:00-01:60'].map(impossible),
      [bad({ time: '1969-12-31T23:59:59.999Z' }), /time must be in 1970 or later/],
      [bad({ time: '2999-01-01T00:00:00Z' }), /more than a day ahead/],
      [bad({ datacontenttype: 'text/plain' }), /datacontenttype must be/],
      [bad({ metadata: '[1]' }), /metadata must be the text of a JSON object/],
      [bad({ data: [] }), /data must be an object/],
      [bad({ data: undefined, data_base64: 'AA==' }), /data_base64 is not taken/],
      [bad({ correlationId: 'c' }), /'correlationId'.*correlationid/],
      [`${line.slice(0, -1)},"id":"x"}`, /id is there twice/],
    ];
    for (const [wrong, expected] of cases) {
      const told = problem(await importLines(target, 'strict', [...lines.slice(0, -1), wrong]), 400, 'INVALID_REQUEST');
      assert.equal(told['line'], lines.length, told.detail);
      assert.match(told.detail, expected);
      assert.match(told.detail, /^Line 29: .*nothing of the import was kept\.$/);
      assert.deepEqual(await records(to), [], told.detail);
    }
    const torn = problem(
      await target.request('POST', '/admin/tenants/strict/import', {
        key: null,
        raw: `${lines[0]}\n${lines[1]}`,
        headers: { 'x-admin-key': ADMIN_KEY, 'content-type': CLOUD_EVENTS },
      }),
      400,
      'INVALID_REQUEST',
    );
    assert.match(torn.detail, /^Line 2: the line has no end/);
    // The tenant is as new: it takes appends, and after them no import; and nothing is left in the log of what failed.
    success(await importLines(target, 'strict', lines), 200);
    assert.equal((await digestOf(target, there)).order, original.order);
    problem(await importLines(target, 'nobody', lines), 404, 'NOT_FOUND');
  });

  await t.test(
    'while it lasts nobody else is served; who says nothing for long is cut off, and so is who goes away',
    async () => {
      const there = await newTenant(target, { tenantId: 'slow' });
      const to = new Api(target, there);
      const open = (): { readonly answered: Promise<[number, string]>; write(line: string): void; destroy(): void } => {
        const sent = request(`${target.url}/admin/tenants/slow/import`, {
          method: 'POST',
          headers: { 'x-admin-key': ADMIN_KEY, 'content-type': CLOUD_EVENTS },
        });
        const answered = new Promise<[number, string]>((resolve, reject) => {
          sent.on(
            'response',
            (response) => void text(response).then((body) => resolve([response.statusCode ?? 0, body]), reject),
          );
          sent.on('error', reject);
        });
        answered.catch(() => undefined);
        return { answered, write: (line) => void sent.write(`${line}\n`), destroy: () => void sent.destroy() };
      };
      const closed = async (): Promise<boolean> => (await to.get('/feed')).status === 403;
      const silent = open();
      silent.write(lines[0] ?? '');
      await until(closed);
      const refused = problem(
        await to.post('/events', { aggregateId: 'a', eventType: 'E', data: {} }),
        403,
        'TENANT_SUSPENDED',
      );
      assert.match(refused.detail, /being imported/);
      const [status, body] = await silent.answered;
      assert.equal(status, 400);
      assert.match(body, /No line came for 2 s/);
      assert.deepEqual(await records(to), []);
      const gone = open();
      gone.write(lines[0] ?? '');
      await until(closed);
      gone.destroy();
      await until(async () => !(await closed()));
      assert.deepEqual(await records(to), []);
      success(await importLines(target, 'slow', lines), 200);
    },
  );

  await t.test('while producers write to it, until they are cut over', async () => {
    const there = await newTenant(target, { tenantId: 'cut' });
    await new Api(target, there).deployReducer(code);
    let [written, ended] = [0, false];
    const producing = (async () => {
      while (!ended) {
        success(
          await from.post('/events', {
            aggregateId: `account-${written % 7}`,
            eventType: 'Deposited',
            data: { cents: 1 },
          }),
          201,
        );
        written++;
      }
    })();
    const exporting = spawnStatefold(commandEnv(source, key), folder, 'export', '-', '--follow');
    const importing = spawnStatefoldFed(commandEnv(target, there), folder, 'import', 'cut', '-');
    const [told, ending] = [text(importing.stderr), once(importing, 'close')];
    let passed = 0;
    exporting.stdout.on('data', (chunk: Buffer) => (passed += chunk.toString('latin1').split('\n').length - 1));
    exporting.stdout.pipe(importing.stdin);
    await until(() => passed > lines.length + 100 && written > 200);
    ended = true;
    await producing;
    exporting.kill('SIGTERM');
    assert.deepEqual(await ending, [0, null], await told);
    const here = await digestOf(source, key);
    assert.deepEqual(await digestOf(target, there), here);
    assert.equal(here.events, lines.length + written);
  });

  await t.test('one that follows ends where the service refuses it, and waits for a service that is away', async () => {
    const refused = await statefold(commandEnv(source, 'sf_no-key-of-any-tenant'), folder, 'export', '-', '--follow');
    assert.equal(refused.code, 1);
    assert.match(refused.err, /key/);
    const nowhere = { ...commandEnv(source, key), STATEFOLD_URL: 'http://127.0.0.1:9' };
    const waiting = spawnStatefold(nowhere, folder, 'export', '-', '--follow');
    let told = '';
    await new Promise<void>((resolve) => {
      waiting.stderr.on('data', (chunk: Buffer) => {
        told += chunk.toString();
        if (told.includes('Trying again.')) resolve();
      });
    });
    const ended = once(waiting, 'close');
    waiting.kill('SIGTERM');
    assert.deepEqual(await ended, [1, null]);
  });

  await t.test('states that a double takes for equal have another digest', async () => {
    const digests: Digest[] = [];
    for (const tenantId of ['even', 'odd']) {
      const there = await newTenant(source, { tenantId });
      await new Api(source, there).deployReducer(code);
      const cents = `900719925474099${tenantId === 'even' ? 2 : 3}`;
      const raw = `{"aggregateId":"account-1","events":[{"eventType":"Opened","data":{"owner":"Ada"}},{"eventType":"Deposited","data":{"cents":${cents}}}]}`;
      const headers = { 'content-type': 'application/json' };
      success(await new Api(source, there).request('POST', '/events/batch', { raw, headers }), 201);
      digests.push(await digestOf(source, there));
    }
    assert.notEqual(digests[0]?.states, digests[1]?.states);
  });

  await t.test('without what was erased', async () => {
    success(await from.request('DELETE', '/aggregates/note-1', { body: { reason: 'asked for' } }), 202);
    await until(async () => !parsed(await exported(source, key)).some(({ subject }) => subject === 'note-1'));
    const left = await exported(source, key);
    const there = await newTenant(target, { tenantId: 'erased' });
    await new Api(target, there).deployReducer(code);
    success(await importLines(target, 'erased', left), 200);
    assert.deepEqual(await digestOf(target, there), await digestOf(source, key));
  });
});
