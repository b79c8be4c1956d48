import assert from 'node:assert/strict';
import test from 'node:test';
import { SCOPES, type Scope } from '../../src/core/scopes.js';
import { ROUTES } from '../../src/http/table.js';
import { Api, problem, success, admin } from '../support/api.js';
import { openEvents, openSocket, refusedUpgrade } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { startService, temporaryDirectory } from '../support/service.js';

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
