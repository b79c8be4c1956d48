import { knownError, problemOf, type Problem } from '../problem.js';
import { queryOf } from '../parameters.js';
import type { Call, Method } from '../route.js';
import {
  readOnly,
  REGISTRY_TYPE,
  RegistryError,
  versionNumber,
  type SchemaRegistry,
  type Scope,
} from '../schema-registry.js';
import { route, type Room, type Route } from './dependencies.js';

/**
 * A registry of the schemas of this service's own topics, which speaks the REST interface of Confluent's, read only: enough for
 * consumers, converters and tools that were told `schema.registry.url=<base URL>/schema-registry`.
 * It is Confluent's interface, errors and all, and so not in our OpenAPI document: docs/reference/schema-registry.md.
 */
const PATH = '/schema-registry';

type Ask = (registry: SchemaRegistry, call: Call, scope: Scope) => unknown;

const entries = (path: string, methods: Readonly<Partial<Record<Method, Ask>>>): Route[] =>
  (Object.entries(methods) as [Method, Ask][]).map(([method, ask]) =>
    route({
      method,
      path: PATH + path,
      operationId: `schemaRegistry ${method} ${path}`,
      tag: 'Schema registry',
      summary: 'As Confluent documents it',
      servedBy: 'any',
      credentials: 'own',
      described: false,
      answers: { 200: { media: REGISTRY_TYPE } },
      serve: async ({ schemaRegistry }, call) => {
        const scope = await schemaRegistry.authorise(call.request);
        const answer = await ask(schemaRegistry, call, scope);
        call.response.writeHead(200, { 'Content-Type': REGISTRY_TYPE }).end(JSON.stringify(answer));
      },
    }),
  );

const subjectOf = (call: Call): string => call.parameter('subject');
const refuse: Ask = (_registry, call) => {
  throw readOnly(subjectOf(call) || 'of any name');
};
const versionOf: Ask = (registry, call, scope) =>
  registry.describe(subjectOf(call), registry.version(subjectOf(call), call.parameter('version'), scope));

/** A setting, which all subjects have alike. */
const setting = (path: string, value: object): Route[] => [
  ...entries(path, { GET: () => value, PUT: refuse }),
  ...entries(`${path}/{subject}`, {
    GET: (registry, call, scope) => {
      registry.versions(subjectOf(call), scope);
      return value;
    },
    PUT: refuse,
    DELETE: refuse,
  }),
];

const ROUTES = [
  ...entries('/', { GET: () => ({}) }),
  ...entries('/subjects', {
    GET: (registry, { request }, scope) => {
      const prefix = queryOf(request.url ?? '').get('subjectPrefix') ?? '';
      return registry.subjects(scope).filter((subject) => subject.startsWith(prefix));
    },
  }),
  ...entries('/subjects/{subject}', {
    POST: async (registry, call, scope) =>
      registry.describe(subjectOf(call), await registry.find(call.request, subjectOf(call), scope)),
    DELETE: refuse,
  }),
  ...entries('/subjects/{subject}/versions', {
    GET: (registry, call, scope) => registry.versions(subjectOf(call), scope),
    POST: async (registry, call, scope) => ({ id: await registry.register(call.request, subjectOf(call), scope) }),
  }),
  ...entries('/subjects/{subject}/versions/{version}', { GET: versionOf, DELETE: refuse }),
  ...entries('/subjects/{subject}/versions/{version}/schema', {
    GET: (registry, call, scope) => registry.version(subjectOf(call), call.parameter('version'), scope).schema,
  }),
  ...entries('/schemas/types', { GET: () => ['AVRO'] }),
  ...entries('/schemas/ids/{id}', {
    GET: (registry, call) => ({ schema: registry.withId(call.parameter('id')).text }),
  }),
  ...entries('/schemas/ids/{id}/schema', { GET: (registry, call) => registry.withId(call.parameter('id')).schema }),
  ...entries('/schemas/ids/{id}/subjects', {
    GET: (registry, call, scope) => registry.using(call.parameter('id'), scope),
  }),
  ...entries('/schemas/ids/{id}/versions', {
    GET: (registry, call, scope) => {
      const id = call.parameter('id');
      return registry
        .using(id, scope)
        .map((subject) => ({ subject, version: versionNumber(registry.withId(id).name) }));
    },
  }),
  ...setting('/config', { compatibilityLevel: 'BACKWARD' }),
  ...setting('/mode', { mode: 'READONLY' }),
];

/** What is refused, as Confluent's registry says it; what isn't known stays a problem of ours. */
function dialect(thrown: unknown, requestId: string): Problem | undefined {
  const body = (code: number, message: string): Buffer => Buffer.from(JSON.stringify({ error_code: code, message }));
  if (thrown instanceof RegistryError) {
    const headers = { 'Content-Type': REGISTRY_TYPE, 'X-Request-Id': requestId };
    return { status: thrown.status, headers, body: body(thrown.errorCode, thrown.message) };
  }
  const error = knownError(thrown);
  if (error.code === 'INTERNAL') return undefined;
  const { status, headers } = problemOf(error, requestId);
  return {
    status,
    headers: {
      ...headers,
      'Content-Type': REGISTRY_TYPE,
      ...(status === 401 ? { 'WWW-Authenticate': 'Basic realm="statefold"' } : {}),
    },
    body: body(status, error.message),
  };
}

export const SCHEMA_REGISTRY: Room = {
  routes: ROUTES,
  under: { path: PATH, dialect, missing: () => new RegistryError(404, 404, 'HTTP 404 Not Found') },
};
