// Who changed what: each change that a key asked for is in the audit log, also after a kill, and each tenant reads its own alone.
import assert from 'node:assert/strict';
import test from 'node:test';
import { admin, Api, newTenant, problem, success } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { statefold } from '../support/cli.js';
import { ADMIN_KEY, startService, temporaryDirectory, until, type Service } from '../support/service.js';

interface Entry {
  readonly id: string;
  readonly at: string;
  readonly endedAt?: string;
  readonly tenantId?: string;
  readonly keyId: string;
  readonly keyName?: string;
  readonly action: string;
  readonly object: Readonly<Record<string, string>>;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly outcome: string;
  readonly status?: number;
  readonly code?: string;
  readonly requestId: string;
  readonly remoteAddress?: string;
}
interface Page {
  readonly entries: readonly Entry[];
  readonly nextCursor?: string;
}

/** The oldest first. */
async function all(read: (query: string) => Promise<Page>): Promise<Entry[]> {
  const entries: Entry[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(`limit=3${cursor === undefined ? '' : `&cursor=${cursor}`}`);
    assert.ok(page.entries.length <= 3);
    entries.push(...page.entries);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return entries.reverse();
}
const ofTenant = (api: Api): Promise<Entry[]> => all((query) => api.read<Page>(`/audit?${query}`));
const ofAdmin = (service: Service, tenant?: string): Promise<Entry[]> =>
  all(async (query) =>
    success(
      await admin(service, 'GET', `/admin/audit?${query}${tenant === undefined ? '' : `&tenant=${tenant}`}`),
      200,
    ).json<Page>(),
  );
const brief = (entries: readonly Entry[]): unknown[] =>
  entries.map(({ action, object, outcome, status }) => [action, object, outcome, status]);

test('the audit log', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  const first = await newTenant(service, { tenantId: 'acme', name: 'Acme' });
  const made = success(
    await admin(service, 'POST', '/admin/tenants/acme/keys', {
      name: 'ci',
      scopes: ['append', 'read', 'deploy', 'audit'],
    }),
    201,
  ).json<{ keyId: string; apiKey: string }>();
  const ci = (): Api => new Api(service, made.apiKey);
  const secrets = [first, made.apiKey];

  await t.test('the tenant sees who made it and its keys', async () => {
    const [created, key, ...rest] = await ofTenant(ci());
    assert.deepEqual(rest, []);
    assert.deepEqual(
      [created?.action, created?.object['tenantId'], created?.details],
      ['tenant.create', 'acme', { tenantId: 'acme', name: 'Acme' }],
    );
    assert.deepEqual(brief([key as Entry]), [['key.create', { tenantId: 'acme', keyId: made.keyId }, 'done', 201]]);
    assert.deepEqual(
      [key?.keyId, key?.keyName, key?.details],
      ['admin', 'admin', { name: 'ci', scopes: ['append', 'read', 'deploy', 'audit'] }],
    );
    assert.equal(key?.remoteAddress, undefined, 'where the admin is, is no concern of a tenant');
    const told = (await ofAdmin(service, 'acme')).at(-1);
    assert.deepEqual([told?.id, told?.remoteAddress], [key?.id, '127.0.0.1']);
  });

  await t.test('a deploy, a refusal and an append: what is told is what was done', async () => {
    const reducerId = await ci().deployReducer({ 'Tally.cs': tally('acc') });
    const projectionId = await ci().deployProjection({ 'Totals.cs': totals() });
    const before = (await ofTenant(ci())).length;
    await ci().append('acc-1', 'Opened');
    const missing = await ci().request('POST', `/projections/${projectionId}/rollback`, {
      headers: { 'x-request-id': 'roll-1' },
    });
    problem(missing, 409, 'NO_EARLIER_REVISION');
    problem(await ci().delete('/reducers/none'), 404, 'NOT_FOUND');
    // Refused before anything is looked at.
    problem(await ci().delete('/aggregates/acc-1'), 403, 'FORBIDDEN');
    const entries = await ofTenant(ci());
    assert.deepEqual(brief(entries.slice(2, before).filter(({ action }) => action.endsWith('.deploy'))), [
      ['reducer.deploy', { reducerId }, 'done', 202],
      ['projection.deploy', { projectionId }, 'done', 202],
    ]);
    assert.deepEqual(brief(entries.slice(before)), [
      ['projection.rollback', { projectionId }, 'refused', 409],
      ['reducer.delete', { reducerId: 'none' }, 'refused', 404],
    ]);
    const [rollback] = entries.slice(before);
    assert.deepEqual(
      [rollback?.keyId, rollback?.keyName, rollback?.code, rollback?.requestId, rollback?.remoteAddress],
      [made.keyId, 'ci', 'NO_EARLIER_REVISION', 'roll-1', '127.0.0.1'],
    );
    assert.ok((rollback?.at ?? 'z') <= (rollback?.endedAt ?? ''));
    const of = async (query: string): Promise<unknown[]> =>
      brief((await ci().read<Page>(`/audit?${query}`)).entries).map((one) => (one as unknown[])[0]);
    assert.deepEqual(await of(`object=${projectionId}`), ['projection.rollback', 'projection.deploy']);
    assert.deepEqual(await of(`action=projection&outcome=refused&key=${made.keyId}`), ['projection.rollback']);
    assert.deepEqual(await of(`action=projection&to=${rollback?.at}`), ['projection.deploy']);
    problem(await ci().get('/audit?outcome=bad'), 400, 'INVALID_REQUEST');
    problem(await ci().get('/audit?actoin=projection'), 400, 'INVALID_REQUEST');
  });

  await t.test('quotas, endpoints, secrets and an erasure', async () => {
    const before = (await ofTenant(ci())).length;
    const whole = new Api(service, first);
    success(await admin(service, 'PATCH', '/admin/tenants/acme', { quotas: { connections: 50 } }), 200);
    const endpoint = success(
      await whole.post('/webhooks/endpoints', {
        url: 'http://192.0.2.1/hook-with-a-token',
        source: { feed: {} },
        isolateSecret: true,
        headers: { authorization: 'Bearer of-the-receiver' },
      }),
      201,
    ).json<{ endpointId: string; secret: string }>();
    const rotated = success(await whole.post(`/webhooks/endpoints/${endpoint.endpointId}/rotate`), 200);
    secrets.push(endpoint.secret, rotated.json<{ secret: string }>().secret, 'of-the-receiver', 'hook-with-a-token');
    success(await whole.request('DELETE', '/aggregates/acc-1', { body: { reason: 'a reason that is personal' } }), 202);
    secrets.push('a reason that is personal');
    problem(await admin(service, 'DELETE', '/admin/tenants/acme/keys/none'), 404, 'NOT_FOUND');
    const { endpointId } = endpoint;
    assert.deepEqual(brief((await ofTenant(ci())).slice(before)), [
      ['tenant.change', { tenantId: 'acme' }, 'done', 200],
      ['endpoint.create', { endpointId }, 'done', 201],
      ['endpoint.rotate-secret', { endpointId }, 'done', 200],
      ['aggregate.erase', { aggregateId: 'acc-1' }, 'done', 202],
      ['key.revoke', { tenantId: 'acme', keyId: 'none' }, 'refused', 404],
    ]);
    assert.deepEqual((await ofTenant(ci()))[before]?.details, { quotas: { connections: 50 } });
    const told = JSON.stringify(await ofAdmin(service));
    for (const secret of secrets) assert.ok(!told.includes(secret), 'a secret is in the audit log');
  });

  await t.test('what only says what it would do leaves nothing', async () => {
    const before = (await ofTenant(ci())).length;
    const schema = { schema: { type: 'object' } };
    success(await ci().put('/event-types/Opened?check=true', schema), 200);
    success(await ci().request('POST', '/reducers/check', { raw: formOf() }), 200);
    assert.equal((await ofTenant(ci())).length, before);
    success(await ci().put('/event-types/Opened', schema), 200);
    assert.deepEqual(brief((await ofTenant(ci())).slice(before)), [
      ['event-type.set-schema', { eventType: 'Opened' }, 'done', 200],
    ]);
  });

  await t.test('nobody sees what is not his', async () => {
    const other = new Api(service, await newTenant(service, { tenantId: 'other' }));
    assert.deepEqual(
      (await ofTenant(other)).map(({ action, tenantId }) => [action, tenantId]),
      [['tenant.create', 'other']],
    );
    assert.ok((await ofTenant(ci())).every(({ tenantId }) => tenantId === 'acme'));
    const narrow = success(
      await admin(service, 'POST', '/admin/tenants/acme/keys', { scopes: ['read', 'deploy'] }),
      201,
    ).json<{ apiKey: string }>();
    problem(await new Api(service, narrow.apiKey).get('/audit'), 403, 'FORBIDDEN');
    problem(await ci().get('/admin/audit'), 401, 'UNAUTHENTICATED');
    problem(await admin(service, 'GET', '/admin/audit?tenantId=acme'), 400, 'INVALID_REQUEST');
    problem(await ci().get('/audit?cursor=x'), 400, 'INVALID_REQUEST');
  });

  await t.test('the command line tells it, to either', async () => {
    const env = { STATEFOLD_URL: service.url };
    const mine = await statefold({ ...env, STATEFOLD_API_KEY: made.apiKey }, dataDirectory, 'audit', '--limit', '200');
    assert.deepEqual([mine.code, mine.err], [0, '']);
    assert.match(mine.out, /^TIME +TENANT +KEY +ACTION +OBJECT +OUTCOME +FROM\n/);
    assert.match(mine.out, / acme +ci +reducer\.delete +none +refused \(404\) +127\.0\.0\.1\n/);
    const one = await statefold(
      { ...env, STATEFOLD_ADMIN_KEY: ADMIN_KEY },
      dataDirectory,
      ...['--json', 'audit', '--tenant', 'other', '--limit', '1'],
    );
    assert.deepEqual(
      (JSON.parse(one.out) as Page).entries.map(({ action, object }) => [action, object['tenantId']]),
      [['tenant.create', 'other']],
    );
  });

  await t.test('a tenant of an id that was used before reads none of the former', async () => {
    success(await admin(service, 'DELETE', '/admin/tenants/other'), 204);
    const again = new Api(service, await newTenant(service, { tenantId: 'other' }));
    assert.deepEqual(
      (await ofTenant(again)).map(({ action }) => action),
      ['tenant.create'],
    );
    assert.deepEqual(
      (await ofAdmin(service, 'other')).map(({ action }) => action),
      ['tenant.create', 'tenant.delete', 'tenant.create'],
    );
  });

  await t.test('a kill takes nothing that was answered, and what was under way is there', async () => {
    const [mine, every] = [await ofTenant(ci()), await ofAdmin(service)];
    // Its body never ends: it has begun, and has no outcome.
    const abandoned = new AbortController();
    const sent = fetch(`${service.url}/reducers/upload`, {
      method: 'POST',
      headers: { 'x-api-key': made.apiKey, 'content-type': 'multipart/form-data; boundary=b' },
      body: new ReadableStream({ start: (stream) => stream.enqueue(Buffer.from('--b\r\n')) }),
      duplex: 'half',
      signal: abandoned.signal,
    }).catch(() => undefined);
    await until(async () => (await ofTenant(ci())).length > mine.length);
    await service.kill();
    abandoned.abort();
    await sent;
    service = await startService(t, { dataDirectory });
    const after = await ofTenant(ci());
    assert.deepEqual(after.slice(0, mine.length), mine);
    assert.deepEqual(brief(after.slice(mine.length)), [['reducer.deploy', {}, 'unknown', undefined]]);
    assert.deepEqual((await ofAdmin(service)).slice(0, every.length), every);
  });
});

function formOf(): FormData {
  const form = new FormData();
  form.append('file', new Blob([tally('acc')]), 'Tally.cs');
  return form;
}
