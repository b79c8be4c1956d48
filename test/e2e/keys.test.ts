import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import test from 'node:test';
import { SCOPES, type Scope } from '../../src/core/scopes.js';
import { ROUTES } from '../../src/http/table.js';
import { Api, problem, success, admin, newTenant } from '../support/api.js';
import { openEvents, openSocket, refusedUpgrade } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { feedEvents } from '../support/feed-channels.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

interface NewKey {
  readonly keyId: string;
  readonly apiKey: string;
  readonly name?: string;
  readonly scopes: readonly Scope[];
  readonly expiresAt?: string;
}

test('keys with scopes and an expiry', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  const make = async (body?: object): Promise<NewKey> =>
    success(await admin(service, 'POST', '/admin/tenants/default/keys', body), 201).json<NewKey>();
  const as = ({ apiKey }: { readonly apiKey: string }): Api => new Api(service, apiKey);

  await t.test('a key says what it may do, and what it was asked for wrongly', async () => {
    const key = await make({ name: 'shop', scopes: ['read', 'append'], expiresAt: '2100-01-01T02:00:00+02:00' });
    assert.deepEqual([key.name, key.scopes, key.expiresAt], ['shop', ['append', 'read'], '2100-01-01T00:00:00.000Z']);
    const me = await as(key).read<Record<string, unknown>>('/auth/whoami');
    assert.deepEqual([me['keyName'], me['scopes'], me['expiresAt']], [key.name, key.scopes, key.expiresAt]);
    assert.deepEqual((await make()).scopes, SCOPES);
    const { keys } = (await admin(service, 'GET', '/admin/tenants/default/keys')).json<{ keys: NewKey[] }>();
    const { apiKey: _, ...listed } = key;
    assert.deepEqual(
      keys.find(({ keyId }) => keyId === key.keyId),
      listed,
    );
    for (const [bad, pointer] of [
      [{ scopes: [] }, '/scopes'],
      [{ scopes: ['append', 'write'] }, '/scopes/1'],
      [{ scopes: 'append' }, '/scopes'],
      [{ name: '' }, '/name'],
      [{ expiresAt: '2001-01-01T00:00:00Z' }, '/expiresAt'],
      [{ expiresAt: 'tomorrow' }, '/expiresAt'],
      [{ expiresAt: '2100-01-01' }, '/expiresAt'],
      [{ scope: ['append'] }, '/scope'],
    ] as const) {
      const refused = problem(await admin(service, 'POST', '/admin/tenants/default/keys', bad), 400, 'INVALID_REQUEST');
      assert.equal((refused['errors'] as { pointer: string }[])[0]?.pointer, pointer);
    }
  });

  await t.test('every route of a tenant takes the scope that its entry names, and refuses the others', async () => {
    const all: readonly Scope[] = SCOPES;
    const keys = new Map(
      await Promise.all(all.map(async (scope) => [scope, await make({ scopes: [scope] })] as const)),
    );
    for (const { method, path, scope, credentials } of ROUTES) {
      if (credentials !== 'tenant' || path.endsWith('/sse')) continue;
      const target = path.replaceAll(/\{\w+\}/g, 'none');
      for (const [held, key] of keys) {
        // A body that is refused, so that nothing is done where the key is taken.
        const options = method === 'GET' ? {} : { raw: '[]', headers: { 'content-type': 'application/json' } };
        const answer = await as(key).request(method, target, options);
        const what = `${method} ${path} with ${held}`;
        if (scope === 'any' || scope === held) assert.notEqual(answer.status, 403, what);
        else {
          const refused = problem(answer, 403, 'FORBIDDEN');
          assert.deepEqual([refused['scope'], refused['scopes']], [scope, [held]], what);
          assert.match(refused.detail, new RegExp(`the scope ${scope}\\b`), what);
        }
      }
    }
    const append = keys.get('append') as NewKey;
    assert.equal(
      (await refusedUpgrade(`${service.url}/projections/none/stream`, { 'x-api-key': append.apiKey })).status,
      403,
    );
    const subjects = async ({ apiKey }: NewKey): Promise<number> =>
      (await service.request('GET', '/schema-registry/subjects', { key: apiKey })).status;
    assert.deepEqual([await subjects(append), await subjects(keys.get('read') as NewKey)], [403, 200]);
    await as(append).append('scoped-1', 'Made');
  });

  await t.test('a key ends at its expiry, and so do the streams that it opened', async () => {
    const api = new Api(service);
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() }, { config: '{"sse":true}' });
    const expiresAt = new Date(Date.now() + 4000).toISOString();
    const key = await make({ scopes: ['read'], expiresAt });
    const socket = await openSocket(t, as(key), projectionId);
    const events = await openEvents(t, as(key), projectionId);
    const kept = await openSocket(t, api, projectionId);
    assert.equal(await socket.closed, 4401);
    await events.ended;
    assert.ok(Date.now() >= Date.parse(expiresAt));
    const refused = problem(await as(key).get('/auth/whoami'), 401, 'UNAUTHENTICATED');
    assert.match(refused.detail, /expired at/);
    await api.append('still-1', 'Added', { key: 'x', n: 1 });
    await kept.received(1);
    kept.close();
  });

  await t.test('a conflict lists events to who may read them only', async () => {
    const event = { aggregateId: 'conflict-1', eventType: 'Made', data: { secret: 1 }, expectedVersion: 0 };
    success(await new Api(service).post('/events', event), 201);
    const append = as(await make({ scopes: ['append'] }));
    const refused = problem(await append.post('/events?includeConflicts=true', event), 403, 'FORBIDDEN');
    assert.equal(refused['scope'], 'read');
    assert.equal(problem(await append.post('/events', event), 409, 'VERSION_CONFLICT')['conflicts'], undefined);
    const both = as(await make({ scopes: ['append', 'read'] }));
    const told = problem(await both.post('/events?includeConflicts=true', event), 409, 'VERSION_CONFLICT');
    assert.equal((told['conflicts'] as unknown[]).length, 1);
  });

  await t.test('scopes outlive a kill', async () => {
    const key = await make({ scopes: ['append'] });
    await service.kill();
    service = await startService(t, { dataDirectory });
    await as(key).append('scoped-2', 'Made');
    problem(await as(key).get('/events/scoped-2'), 403, 'FORBIDDEN');
  });
});

test('what waits and what streams ends with its key, and with its tenant', async (t) => {
  const service = await startService(t);
  const apiKey = await newTenant(service, { tenantId: 'acme' });
  const acme = new Api(service, apiKey);
  const make = async (body?: object): Promise<NewKey> =>
    success(await admin(service, 'POST', '/admin/tenants/acme/keys', body), 201).json<NewKey>();
  const within = (ms: number): { expiresAt: string } => ({ expiresAt: new Date(Date.now() + ms).toISOString() });
  const as = ({ apiKey: key }: NewKey): Api => new Api(service, key);
  const suspend = async (suspended: boolean): Promise<unknown> =>
    success(await admin(service, 'PATCH', '/admin/tenants/acme', { suspended }), 200);
  const connections = async (): Promise<number> =>
    (await acme.read<{ usage: { connections: number } }>('/usage')).usage.connections;
  /** Of the last event. */
  let position = 0;
  const append = async (aggregateId: string, events: readonly object[]): Promise<void> => {
    const { headers } = success(await acme.post('/events/batch', { aggregateId, events }), 201);
    position = Number(headers.get('statefold-position'));
  };

  await t.test('a poll that waited is not answered to a key that is in force no more', async () => {
    const revoked = await make();
    const expires = await make(within(5000));
    const path = '/feed?after=0&waitSeconds=30';
    const polls = [revoked, expires].map((key) => as(key).get(path));
    const kept = acme.get(path);
    await until(async () => (await connections()) === 3);
    success(await admin(service, 'DELETE', `/admin/tenants/acme/keys/${revoked.keyId}`), 204);
    await until(async () => (await as(expires).get('/auth/whoami')).status === 401);
    await append('polled-1', [{ eventType: 'Made', data: {} }]);
    success(await kept, 200);
    for (const answer of await Promise.all(polls)) problem(answer, 401, 'UNAUTHENTICATED');
  });

  await t.test('nor is one whose tenant is suspended', async () => {
    await until(async () => (await connections()) === 0);
    const poll = acme.get(`/feed?after=${position}&waitSeconds=30`);
    await until(async () => (await connections()) === 1);
    await suspend(true);
    problem(await poll, 403, 'TENANT_SUSPENDED');
    await suspend(false);
  });

  await t.test('a stream that has more to send than its client reads', async () => {
    const events = Array.from({ length: 20 }, () => ({ eventType: 'Made', data: { fill: 'f'.repeat(45_000) } }));
    // More than the kernel and the service keep of a stream that is not read.
    const batches = 40;
    for (let i = 0; i < batches; i++) await append(`large-${i}`, events);
    const unread = async (key: string): Promise<IncomingMessage> => {
      const request = get(`${service.url}/feed/sse?after=0`, { headers: { 'x-api-key': key } });
      t.after(() => request.destroy());
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      assert.equal(response.statusCode, 200);
      return response;
    };
    /** Read on more slowly than the service has more to send, to its end. */
    const rest = async (response: IncomingMessage): Promise<number> => {
      let bytes = 0;
      for await (const chunk of response) {
        bytes += (chunk as Buffer).length;
        await service.get('/health');
      }
      return bytes;
    };
    const all = batches * 20 * 45_000;
    const expires = await make(within(5000));
    const ofKey = await unread(expires.apiKey);
    const ofTenant = await unread(apiKey);
    // Both streams of the key are looked at on one turn.
    const idle = await feedEvents(t, as(expires), `?after=${position}`);
    assert.equal(await idle.ended, 0);
    const sent = await rest(ofKey);
    assert.ok(sent < 0.75 * all, `${sent} of ${all} bytes came to a key that has expired`);
    await suspend(true);
    const told = await rest(ofTenant);
    assert.ok(told < 0.75 * all, `${told} of ${all} bytes came to a tenant that is suspended`);
  });
});
