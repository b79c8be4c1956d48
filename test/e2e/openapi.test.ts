import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { openapiDocument } from '../../src/http/openapi/document.js';
import { Api, problem, success } from '../support/api.js';
import { ADMIN_KEY, ROOT, startService } from '../support/service.js';

type Paths = Readonly<Record<string, Readonly<Record<string, { readonly security: readonly object[] }>>>>;

/** Every `METHOD path` that the sources mount, in the words of OpenAPI. */
function mounted(): string[] {
  const found = new Set<string>();
  const add = (method: string, path: string): void =>
    void found.add(`${method.toUpperCase()} ${path.replace(/:(\w+)/g, '{$1}')}`);
  const folder = join(ROOT, 'src', 'http');
  // The schema registry's interface is Confluent's, and described there.
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.endsWith('schema-registry.ts'),
  )) {
    const source = readFileSync(join(folder, file), 'utf8');
    for (const [, method = '', path = ''] of source.matchAll(/\brouter\.(get|post|put|delete)\(\s*'(\/[^']*)'/g))
      add(method, path);
    for (const part of source.split('resource(router, ').slice(1)) {
      const [, path = ''] = /^'(\/[^']*)'/.exec(part) ?? [];
      for (const [, method = ''] of part.matchAll(/(?:^|[\s{,])(get|post|put|delete): (?:async )?\(/g))
        add(method, path);
    }
  }
  return [...found];
}

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
  const service = await startService(t);
  const api = new Api(service, null);
  const document = await api.read<{ openapi: string; paths: Paths }>('/openapi.json');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );

  await t.test('it is served as it is', () => {
    assert.equal(document.openapi, '3.1.0');
    assert.deepEqual(document, JSON.parse(JSON.stringify(openapiDocument())));
  });

  await t.test('every route is in it', () => {
    const routes = mounted();
    assert.ok(routes.length > 30, routes.join());
    // The list of the events of an aggregate whose id is "batch".
    assert.deepEqual(
      routes.filter((route) => !operations.includes(route) && route !== 'GET /events/batch'),
      [],
    );
    assert.deepEqual(
      operations.filter((operation) => !routes.includes(operation)),
      [],
    );
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
      const unused = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'].filter(
        (method) => !used.includes(method) && !(path === '/events/batch' && method === 'GET'),
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

  await t.test('health, readiness and metrics', async () => {
    assert.deepEqual(await api.read('/health'), { status: 'ok' });
    const ready = await api.read<{ status: string; checks: Record<string, string> }>('/health/ready');
    assert.deepEqual([ready.status, ready.checks['log']], ['ready', 'up']);
    const metrics = success(await api.get('/metrics', { headers: { 'x-admin-key': ADMIN_KEY } }), 200);
    assert.match(metrics.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
    assert.match(metrics.text, /^# TYPE statefold_/m);
    assert.equal((await api.read<{ asyncapi: string }>('/asyncapi.json')).asyncapi.split('.')[0], '3');
  });
});
