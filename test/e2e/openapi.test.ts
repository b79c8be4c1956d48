import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { openapiDocument } from '../../src/http/openapi/document.js';
import { PATH_PARAMETER } from '../../src/http/route.js';
import { ROUTES } from '../../src/http/table.js';
import { Api, problem, success } from '../support/api.js';
import { AS_ADMIN, ROOT, startService } from '../support/service.js';

interface Operation {
  readonly security: readonly object[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

test('what needs no key is named in its page', () => {
  const { paths } = openapiDocument() as { paths: Record<string, Record<string, { security?: object[] }>> };
  const open = Object.entries(paths).flatMap(([path, operations]) =>
    Object.values(operations).some(({ security }) => security?.length === 0) ? [path] : [],
  );
  const page = readFileSync(join(ROOT, 'docs', 'decisions', 'what-the-edge-accepts.md'), 'utf8');
  const named = page.slice(page.indexOf('**No key for'), page.indexOf('`/metrics`'));
  assert.deepEqual([...named.matchAll(/`([^`]+)`/g)].map(([, path]) => path).sort(), open.sort());
});

test('the description is the service', async (t) => {
  const service = await startService(t, { readStore: true });
  const api = new Api(service, null);
  const document = await api.read<{ openapi: string; paths: Paths }>('/openapi.json');
  await t.test('it is served as it is', () => {
    assert.equal(document.openapi, '3.1.0');
    assert.deepEqual(document, JSON.parse(JSON.stringify(openapiDocument())));
  });

  await t.test('every entry of the table answers, also those that are not described', async () => {
    for (const { method, path, credentials } of ROUTES) {
      const answer = await service.request(method, path.replace(PATH_PARAMETER, 'x'), { key: null });
      if (credentials === 'none') assert.equal(answer.status, 200, path);
      else assert.equal(answer.status, 401, `${method} ${path}: ${answer.text}`);
    }
  });

  await t.test('every operation is there, asks for its key, and refuses other methods with Allow', async () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      const url = path.replace(/\{\w+\}/g, 'x');
      for (const [method, { security }] of Object.entries(methods)) {
        const answer = await api.request(method.toUpperCase(), url);
        if (security.length > 0) problem(answer, 401, 'UNAUTHENTICATED');
        else success(answer, 200);
      }
      const used = Object.keys(methods).map((method) => method.toUpperCase());
      // Read as the events of an aggregate of that name, these are there.
      const isAggregate = ['/events/batch', '/events/bulk', '/events/transaction'].includes(path);
      const unused = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'].filter(
        (method) => !used.includes(method) && !(isAggregate && method === 'GET'),
      );
      for (const method of unused) {
        const answer = await service.request(method, url, { key: null });
        problem(answer, 405, 'METHOD_NOT_ALLOWED');
        for (const one of used)
          assert.ok(
            answer.headers.get('allow')?.split(', ').includes(one),
            `${method} ${path}: ${answer.headers.get('allow')}`,
          );
      }
    }
  });

  await t.test('what is not there is 404, and paths are taken by the letter', async () => {
    for (const path of [
      '/',
      '/nothing',
      '/Events/x',
      '/events/',
      '/events/x/',
      '/events//x',
      '/health/',
      '/reducers/x',
      '/projections/x',
      '/admin',
      '/favicon.ico',
      '/v1/events',
      '/%2e%2e/events',
    ]) {
      const answer = await service.request('GET', path, { key: null });
      assert.ok(answer.status === 404 || answer.status === 401 || answer.status === 405, `${path}: ${answer.status}`);
    }
    problem(await service.request('GET', '/events/%zz'), 400, 'INVALID_REQUEST');
    problem(await service.request('GET', '/events/%ff'), 400, 'INVALID_REQUEST');
    problem(await service.request('GET', '/events/%00'), 400, 'INVALID_REQUEST');
  });

  await t.test('each example of a body is taken, or refused for what it names alone', async () => {
    const tenant = new Api(service);
    // Its engine is a process of its own, and may still be starting.
    await api.readStoreAccess();
    const outcomes: string[] = [];
    for (const [path, methods] of Object.entries(document.paths))
      for (const [method, { requestBody, security }] of Object.entries(methods))
        for (const [type, { example }] of Object.entries(requestBody?.content ?? {})) {
          if (example === undefined) continue;
          const raw = typeof example === 'string' ? example : JSON.stringify(example);
          const isOwners = JSON.stringify(security).includes('admin');
          const url = path.replace(/\{\w+\}/g, 'x');
          const headers = { 'content-type': type, ...(isOwners ? AS_ADMIN.headers : {}) };
          const answer = await (isOwners ? api : tenant).request(method.toUpperCase(), url, { raw, headers });
          outcomes.push(`${method} ${path}: ${answer.status}`);
          // The body is read; accounts are of a ClickHouse server alone.
          const isOfServers = path === '/sql/accounts' && answer.status === 501;
          assert.ok(
            isOfServers || [200, 201, 202, 404, 409].includes(answer.status),
            `${method} ${path}: ${answer.status} ${answer.text}`,
          );
        }
    assert.ok(outcomes.length >= 20);
    for (const taken of [
      'post /events: 201',
      'post /events/batch: 201',
      'post /events/bulk: 200',
      'post /admin/tenants: 201',
    ])
      assert.ok(outcomes.includes(taken), `${taken} is not among ${outcomes.join(', ')}`);
  });

  await t.test('health, readiness and metrics', async () => {
    assert.deepEqual(await api.read('/health'), { status: 'ok' });
    const ready = await api.read<{ status: string; checks: Record<string, string> }>('/health/ready');
    assert.deepEqual([ready.status, ready.checks['log']], ['ready', 'up']);
    const metrics = success(await api.get('/metrics', AS_ADMIN), 200);
    assert.match(metrics.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
    assert.match(metrics.text, /^# TYPE statefold_/m);
    assert.equal((await api.read<{ asyncapi: string }>('/asyncapi.json')).asyncapi.split('.')[0], '3');
  });
});
