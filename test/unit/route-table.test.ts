import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { z } from 'zod';
import { findProjectRoot } from '../../src/config/project-root.js';
import { AUDITED, NOT_AUDITED } from '../../src/http/audited.js';
import { openapiDocument } from '../../src/http/openapi/document.js';
import { statusOf } from '../../src/http/problem.js';
import type { Append } from '../../src/http/append-schema.js';
import { PATH_PARAMETER } from '../../src/http/route.js';
import { expressPath } from '../../src/http/router.js';
import { components } from '../../src/http/schema.js';
import { ENTRIES, ROUTES, type Operations } from '../../src/http/table.js';

interface Described {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: object }[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: object; readonly example?: unknown }>>;
  };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>;
}
const document = openapiDocument() as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
};
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
);

test('every entry has one name and one place, and what it says of its path is there', () => {
  const once = (names: readonly string[]): void =>
    assert.deepEqual(
      names.filter((name, i) => names.indexOf(name) !== i),
      [],
    );
  once(ROUTES.map(({ operationId }) => operationId));
  once(ROUTES.map(({ method, path }) => `${method} ${path}`));
  // Two spellings of one place: the parameters' names make no difference to a router.
  once(ROUTES.map(({ method, path }) => `${method} ${path.replace(PATH_PARAMETER, '{}')}`));
  for (const { path, servedBy, parameters, credentials, answers, errors = [], body, method } of ROUTES) {
    const named = [...path.matchAll(PATH_PARAMETER)].map(([, name = '']) => name);
    if (typeof servedBy === 'object') {
      const [name = ''] = Object.values<string>(servedBy);
      assert.ok(named.includes(name) || parameters?.[name] !== undefined, `${path} names ${name}`);
    }
    if (credentials === 'none') assert.equal(servedBy, 'any', path);
    for (const code of errors) assert.ok(statusOf(code) >= 400, code);
    assert.ok(Object.keys(answers).every((status) => Number(status) < 400));
    if (method === 'GET') assert.equal(body, undefined, path);
    assert.match(expressPath(path), /^(?:\/(?::\w+|[a-z.-]*))+$/);
  }
});

test('a route that may change something is audited, or named as one that is not', () => {
  const changing = ENTRIES.filter(({ method }) => method !== 'GET');
  for (const { operationId, path, credentials } of changing) {
    const audited = AUDITED[operationId];
    assert.equal(audited === undefined, NOT_AUDITED[operationId] !== undefined, `${operationId} is in one of the two`);
    if (audited === undefined) continue;
    const named = [...path.matchAll(PATH_PARAMETER)];
    assert.ok((audited.names ?? named).length === named.length, `${operationId} names each parameter of its path`);
    assert.equal(
      audited.ofTenant === true,
      credentials === 'admin' && path.startsWith('/admin/tenants/{'),
      operationId,
    );
  }
  const known = new Set(changing.map(({ operationId }) => operationId as string));
  assert.deepEqual(
    [...Object.keys(AUDITED), ...Object.keys(NOT_AUDITED)].filter((name) => !known.has(name)),
    [],
  );
  // Those of the schema registry refuse whatever isn't a lookup.
  for (const { credentials, path } of ROUTES.filter(({ credentials: shown }) => shown === 'own'))
    assert.ok(path.startsWith('/schema-registry/'), `${path} ${credentials}`);
});

test('the page of the audit log names every action', () => {
  const page = readFileSync(join(findProjectRoot(), 'docs', 'reference', 'audit.md'), 'utf8');
  for (const { action } of Object.values(AUDITED)) assert.ok(page.includes(`\`${action}\``), action);
});

test('paths are spelt where their entries are, and nowhere else', () => {
  const folder = join(findProjectRoot(), 'src', 'http');
  const roots = [...new Set(ROUTES.map(({ path }) => path.split('/')[1] ?? ''))];
  const spelt = new RegExp(`['"\`/^(]\\\\?/(?:${roots.join('|').replaceAll('.', '\\.')})(?=['"\`/\\\\$?)|{]|$)`, 'm');
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.startsWith('routes') || file === 'probes.ts') continue;
    const code = readFileSync(join(folder, file), 'utf8')
      .replace(/\/\*[^]*?\*\/|\/\/.*/g, '')
      // Imports name files, and sentences for clients name routes: `… with PUT /aggregate-types/{type}`.
      .replace(/from '.*'/g, '')
      .replace(/(?:GET|POST|PUT|DELETE) \/[a-z{}/.-]+/g, '');
    assert.doesNotMatch(code, spelt, file);
  }
  assert.match("router.get('/events/:id'", spelt);
  assert.match('const LASTING = /^\\/projections\\/[^/]+$/', spelt);
});

test('the document has every entry of ours, by its name', () => {
  assert.deepEqual(
    operations.map(({ method, path, operation }) => `${operation.operationId}: ${method} ${path}`).sort(),
    ENTRIES.filter((entry) => !('described' in entry) || entry.described !== false)
      .map(({ operationId, method, path }) => `${operationId}: ${method} ${path}`)
      .sort(),
  );
  assert.ok(operations.length >= 60);
  assert.deepEqual(Object.keys(document.components.schemas), [...components().keys()]);
});

test('schemas refer to what is there, and examples are as the schemas have them', () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi');
  for (const reference of new Set(JSON.stringify(document).match(/#\/components\/schemas\/[^"]+/g)))
    assert.ok(document.components.schemas[reference.split('/').at(-1) ?? ''] !== undefined, reference);
  let examples = 0;
  for (const { path, method, operation } of operations) {
    const place = `openapi#/paths/${path.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D')}`;
    for (const [type, { example }] of Object.entries(operation.requestBody?.content ?? {})) {
      const check = ajv.compile({
        $ref: `${place}/${method.toLowerCase()}/requestBody/content/${type.replace('/', '~1')}/schema`,
      });
      // Files have none.
      if (type === 'multipart/form-data') continue;
      assert.ok(example !== undefined, `${method} ${path} shows no example of its body`);
      examples++;
      assert.ok(check(example), `${method} ${path}: ${ajv.errorsText(check.errors)}`);
      // And as the service reads it.
      const { body } = ROUTES.find((route) => route.operationId === operation.operationId) ?? {};
      assert.ok(body?.schema instanceof z.ZodType && body.schema.safeParse(example).success, path);
    }
  }
  assert.ok(examples >= 20);
});

test('refusals are told by status, with the codes that a client may meet', () => {
  const append = document.paths['/events']?.['post']?.responses;
  assert.equal(
    append?.['409']?.description,
    'Refused: AGGREGATE_TYPE_MISMATCH, IDEMPOTENCY_KEY_REUSED, VERSION_CONFLICT',
  );
  assert.equal(append['410']?.description, 'Refused: GONE');
  assert.equal(append['401']?.description, 'Refused: UNAUTHENTICATED');
  assert.equal(document.paths['/health']?.['get']?.responses['401'], undefined);
});

test('the types of what goes over the wire are those of the schemas', () => {
  // Checked by the compiler: a member that isn't there, or of another kind, doesn't build.
  const body: Operations['appendEvent']['body'] = { aggregateId: 'a-1', eventType: 'T', data: {} } satisfies Append;
  const query: Operations['listEvents']['query'] = { limit: 3, direction: 'backward' };
  const answer: Operations['listEvents']['answer']['events'][number]['version'] = 3;
  const none: Operations['deleteReducer']['answer'] = undefined;
  const choice: Operations['rollbackProjection']['body'] = { revision: 2 };
  const method: Operations['bindReducer']['method'] = 'PUT';
  // @ts-expect-error: no such direction
  const wrong: Operations['listEvents']['query'] = { direction: 'sideways' };
  assert.deepEqual([body.aggregateId, query.limit, answer, none, choice.revision], ['a-1', 3, 3, undefined, 2]);
  assert.ok(ENTRIES.some((entry) => entry.operationId === 'bindReducer' && entry.method === method));
  assert.ok(wrong);
});
