import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { Router, type ErrorRequestHandler, type Request, type Response } from 'express';
import { z } from 'zod';
import type { Catalog } from '../../catalog/catalog.js';
import { StatefoldError } from '../../core/errors.js';
import { storedAs, tenantOfKey } from '../../core/slots.js';
import { JsonError, scanJson } from '../../core/json-scanner.js';
import {
  canonicalSchema,
  versionsOf,
  type SchemaIds,
  type SchemaName,
  type TopicSchema,
} from '../../log/codec/schemas.js';
import { adminCheck } from '../admin-auth.js';
import type { Principal } from '../auth.js';
import { readBody } from '../body.js';
import { knownError, problemOf } from '../problem.js';
import { queryOf } from '../query.js';
import { parameter, requestIdOfAnswer, resource, type Method } from '../resource.js';

export interface SchemaRegistryOptions {
  readonly schemas: Readonly<Record<SchemaName, TopicSchema>>;
  /** What the log's records are written with. */
  readonly ids: SchemaIds;
  /** First part of the names of all topics. */
  readonly topicPrefix: string;
  readonly catalog: Pick<Catalog, 'get' | 'list'>;
  readonly adminKey: string;
  /** The tenant of a request's `X-API-Key`. Never forwarded: every process has all schemas. */
  readonly authenticate: (request: IncomingMessage) => Principal | Promise<Principal>;
  readonly limits: { readonly maxBodyBytes: number; readonly maxJsonDepth: number };
}

/** A refusal in the words and numbers of Confluent's interface. */
class RegistryError extends Error {
  constructor(
    readonly status: number,
    readonly errorCode: number,
    message: string,
  ) {
    super(message);
  }
}

const PATH = '/schema-registry';
const CONTENT_TYPE = 'application/vnd.schemaregistry.v1+json';
/** What Confluent's registry takes for JSON. */
const JSON_TYPES = /^application\/(?:vnd\.schemaregistry(?:\.v1)?\+json|json|octet-stream)\s*(?:;|$)/i;
const BODY = z.object({ schema: z.string(), schemaType: z.string().nullish() });

const noSubject = (subject: string): RegistryError => new RegistryError(404, 40401, `Subject '${subject}' not found.`);
const noSchema = (what: string): RegistryError => new RegistryError(404, 40403, `Schema${what} not found`);
const readOnly = (subject: string): RegistryError =>
  new RegistryError(
    422,
    42205,
    `Subject ${subject} is in read-only mode: the service itself keeps the schemas of its topics`,
  );

/** Whose subjects a caller sees: those of its own topics; undefined: all (the admin). */
type Scope = string | undefined;

/**
 * A registry of the schemas of this service's own topics, which speaks the REST interface of Confluent's, read only: enough for
 * consumers, converters and tools that were told `schema.registry.url=<base URL>/schema-registry`. Subjects are the topics'
 * (`<topic>-value`, TopicNameStrategy) and the records' names (RecordNameStrategy). Who may call: an API key or the admin key,
 * in our headers or as the password of `basic.auth.user.info` (of the user `admin` for the admin key).
 * It is Confluent's interface, errors and all, and so not in our OpenAPI document: docs/reference/schema-registry.md.
 */
export function schemaRegistryRoutes(options: SchemaRegistryOptions): Router {
  const { schemas, ids, authenticate, limits } = options;
  const requireAdmin = adminCheck(options.adminKey);
  const subjects = new SubjectNames(options);
  const byId = new Map(Object.values(schemas).map((schema) => [String(ids[schema.name]), schema]));
  const router = Router({ strict: true, caseSensitive: true });

  const authorise = async (request: Request): Promise<Scope> => {
    takeBasicAuth(request);
    if (request.headers['x-admin-key'] === undefined) return (await authenticate(request)).tenantId;
    requireAdmin(request);
    return undefined;
  };
  const serve = (
    path: string,
    methods: Readonly<Partial<Record<Method, (request: Request, scope: Scope) => unknown>>>,
  ): void => {
    const handlers = Object.entries(methods).map(
      ([method, ask]) =>
        [
          method,
          async (request: Request, response: Response) =>
            send(response, 200, await ask(request, await authorise(request))),
        ] as const,
    );
    resource(router, PATH + path, Object.fromEntries(handlers));
  };

  /** The versions of the subject, the first one first. */
  const schemasOf = (request: Request, scope: Scope): readonly TopicSchema[] => {
    const subject = parameter(request, 'subject');
    const name = subjects.schemaOf(subject, scope);
    if (name === undefined) throw noSubject(subject);
    return versionsOf(name).map((version) => schemas[version]);
  };
  const schemaById = (request: Request): TopicSchema => {
    const id = parameter(request, 'id');
    const schema = byId.get(id);
    if (schema === undefined) throw noSchema(` ${id}`);
    return schema;
  };
  const schemaOfVersion = (request: Request, scope: Scope): TopicSchema => {
    const known = schemasOf(request, scope);
    const version = parameter(request, 'version');
    const schema =
      version === 'latest' || version === '-1'
        ? known.at(-1)
        : /^[1-9]\d{0,9}$/.test(version)
          ? known[Number(version) - 1]
          : undefined;
    if (schema !== undefined) return schema;
    if (!/^[1-9]\d{0,9}$/.test(version))
      throw new RegistryError(
        422,
        42202,
        `The specified version '${version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the string "latest"`,
      );
    throw new RegistryError(404, 40402, `Version ${version} not found.`);
  };
  const refuse = (request: Request): never => {
    throw readOnly(parameter(request, 'subject') || 'of any name');
  };
  /** The schema of a body, as a value; undefined when it is no Avro. */
  const given = async (request: Request): Promise<unknown> => {
    const { schema, schemaType } = await readRegistryBody(request, limits);
    if ((schemaType ?? 'AVRO') !== 'AVRO') return undefined;
    const text = Buffer.from(schema);
    try {
      scanJson(text, { maxDepth: limits.maxJsonDepth });
    } catch (error) {
      throw new RegistryError(422, 42201, `Invalid schema: ${(error as Error).message}`);
    }
    return canonicalSchema(JSON.parse(schema));
  };
  const known = new Map(Object.values(schemas).map((schema) => [schema.name, canonicalSchema(schema.schema)]));
  const describe = (request: Request, { name, text }: TopicSchema): object => ({
    subject: parameter(request, 'subject'),
    version: versionNumber(name),
    id: ids[name],
    schema: text,
  });

  serve('/', { get: () => ({}) });
  serve('/subjects', {
    get: (request, scope) => {
      const prefix = queryOf(request.url).get('subjectPrefix') ?? '';
      return subjects.list(scope).filter((subject) => subject.startsWith(prefix));
    },
  });
  serve('/subjects/:subject', {
    post: async (request, scope) => {
      const versions = schemasOf(request, scope);
      const asked = await given(request);
      const schema = versions.find(({ name }) => isDeepStrictEqual(asked, known.get(name)));
      if (schema === undefined) throw noSchema('');
      return describe(request, schema);
    },
    delete: refuse,
  });
  serve('/subjects/:subject/versions', {
    get: (request, scope) => schemasOf(request, scope).map(({ name }) => versionNumber(name)),
    post: async (request, scope) => {
      const subject = parameter(request, 'subject');
      const of = subjects.schemaOf(subject, scope);
      const schema = await given(request);
      const name =
        of === undefined ? undefined : versionsOf(of).find((version) => isDeepStrictEqual(schema, known.get(version)));
      if (name === undefined) throw readOnly(subject);
      return { id: ids[name] };
    },
  });
  serve('/subjects/:subject/versions/:version', {
    get: (request, scope) => describe(request, schemaOfVersion(request, scope)),
    delete: refuse,
  });
  serve('/subjects/:subject/versions/:version/schema', {
    get: (request, scope) => schemaOfVersion(request, scope).schema,
  });
  serve('/schemas/types', { get: () => ['AVRO'] });
  serve('/schemas/ids/:id', { get: (request) => ({ schema: schemaById(request).text }) });
  serve('/schemas/ids/:id/schema', { get: (request) => schemaById(request).schema });
  const using = (request: Request, scope: Scope): string[] => {
    const [first] = versionsOf(schemaById(request).name);
    return subjects.list(scope).filter((subject) => subjects.schemaOf(subject, scope) === first);
  };
  serve('/schemas/ids/:id/subjects', { get: using });
  serve('/schemas/ids/:id/versions', {
    get: (request, scope) =>
      using(request, scope).map((subject) => ({ subject, version: versionNumber(schemaById(request).name) })),
  });
  for (const [path, setting] of [
    ['/config', { compatibilityLevel: 'BACKWARD' }],
    ['/mode', { mode: 'READONLY' }],
  ] as const) {
    serve(path, { get: () => setting, put: refuse });
    serve(`${path}/:subject`, {
      get: (request, scope) => schemasOf(request, scope) && setting,
      put: refuse,
      delete: refuse,
    });
  }

  router.use(PATH, () => {
    throw new RegistryError(404, 404, 'HTTP 404 Not Found');
  });
  // express knows an error handler by its four parameters.
  const onError: ErrorRequestHandler = (thrown: unknown, _request, response, next) => {
    if (thrown instanceof RegistryError)
      return send(response, thrown.status, { error_code: thrown.errorCode, message: thrown.message });
    const error = knownError(thrown);
    if (error.code === 'INTERNAL' || response.headersSent) return next(thrown);
    const { status, headers } = problemOf(error, requestIdOfAnswer(response));
    response.setHeaders(new Map(Object.entries(headers)));
    if (status === 401) response.setHeader('WWW-Authenticate', 'Basic realm="statefold"');
    send(response, status, { error_code: status, message: error.message });
  };
  router.use(PATH, onError);
  return router;
}

function send(response: Response, status: number, body: unknown): void {
  response.status(status).setHeader('Content-Type', CONTENT_TYPE).end(JSON.stringify(body));
}

/** From 1. */
const versionNumber = (name: SchemaName): number => versionsOf(name).indexOf(name) + 1;

/** The subjects of the topics, and whose they are. */
class SubjectNames {
  readonly #fixed: ReadonlyMap<string, SchemaName>;
  readonly #catalog: SchemaRegistryOptions['catalog'];
  readonly #prefix: string;

  constructor({ schemas, topicPrefix, catalog }: SchemaRegistryOptions) {
    this.#fixed = new Map([
      ...Object.values(schemas).map(({ recordName, name }) => [recordName, versionsOf(name)[0] ?? name] as const),
      [`${topicPrefix}.catalog-value`, 'catalog'],
    ]);
    this.#catalog = catalog;
    this.#prefix = `${topicPrefix}.`;
  }

  list(scope: Scope): string[] {
    const tenants = scope === undefined ? this.#catalog.list('tenant', undefined).map(({ id }) => id) : [scope];
    return [
      ...this.#fixed.keys(),
      ...tenants.flatMap((tenant) =>
        [...this.#topicsOf(tenant)].map((name) => `${this.#prefix}${this.#storedAs(tenant)}.${name}-value`),
      ),
    ].sort();
  }

  /** Undefined for a subject that isn't there, or is of another tenant. */
  schemaOf(subject: string, scope: Scope): SchemaName | undefined {
    const fixed = this.#fixed.get(subject);
    if (fixed !== undefined || !subject.startsWith(this.#prefix)) return fixed;
    const [, stored = '', name] = /^(.+)\.(events|changes|order)-value$/.exec(subject.slice(this.#prefix.length)) ?? [];
    const tenantId = tenantOfKey(stored);
    const seen = scope === undefined ? this.#catalog.get('tenant', tenantId) !== undefined : tenantId === scope;
    return seen && stored === this.#storedAs(tenantId) && this.#topicsOf(tenantId).has(name as SchemaName)
      ? (name as SchemaName)
      : undefined;
  }

  #storedAs(tenantId: string): string {
    return storedAs(this.#catalog.get('tenant', tenantId)?.value ?? { tenantId });
  }

  /** A tenant of one partition has no order but that of its events. */
  #topicsOf(tenantId: string): ReadonlySet<SchemaName> {
    const partitions = this.#catalog.get('tenant', tenantId)?.value.partitions ?? 1;
    return new Set(partitions > 1 ? ['changes', 'events', 'order'] : ['changes', 'events']);
  }
}

/** `Authorization: Basic`, as Confluent's clients log in, becomes the header of ours whose key is its password. */
function takeBasicAuth({ headers }: Request): void {
  if (headers['x-api-key'] !== undefined || headers['x-admin-key'] !== undefined) return;
  const [, credentials] = /^Basic ([A-Za-z0-9+/]+={0,2})$/i.exec(headers.authorization ?? '') ?? [];
  if (credentials === undefined)
    throw new StatefoldError(
      'UNAUTHENTICATED',
      'An API key is missing: basic.auth.user.info=<any user>:<API key>, or the header X-API-Key.',
    );
  const text = Buffer.from(credentials, 'base64').toString();
  const colon = text.indexOf(':');
  headers[text.slice(0, colon) === 'admin' ? 'x-admin-key' : 'x-api-key'] = text.slice(colon + 1);
}

async function readRegistryBody(
  request: Request,
  { maxBodyBytes, maxJsonDepth }: SchemaRegistryOptions['limits'],
): Promise<z.infer<typeof BODY>> {
  if (!JSON_TYPES.test(request.headers['content-type'] ?? ''))
    throw new StatefoldError('UNSUPPORTED_MEDIA_TYPE', `HTTP 415 Unsupported Media Type: send ${CONTENT_TYPE}`);
  const body = await readBody(request, maxBodyBytes);
  try {
    scanJson(body, { maxDepth: maxJsonDepth });
  } catch (error) {
    if (error instanceof JsonError) throw new RegistryError(400, 400, `The body is not valid JSON: ${error.message}.`);
    throw error;
  }
  const parsed = BODY.safeParse(JSON.parse(body.toString()));
  if (!parsed.success)
    throw new RegistryError(422, 42201, 'Invalid schema: the body needs the member "schema", a text');
  return parsed.data;
}
