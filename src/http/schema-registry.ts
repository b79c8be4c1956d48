import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Catalog } from '../catalog/catalog.js';
import { StatefoldError } from '../core/errors.js';
import { JsonError, scanJson } from '../core/json-scanner.js';
import { storedAs, tenantOfKey } from '../core/slots.js';
import {
  canonicalSchema,
  versionsOf,
  type SchemaIds,
  type SchemaName,
  type TopicSchema,
} from '../log/codec/schemas.js';
import { adminCheck } from './admin-auth.js';
import type { Principal } from './auth.js';
import { MAX_JSON_VALUES, readInTurn } from './bodies.js';
import { ForeignError } from './route.js';

export interface SchemaRegistryOptions {
  readonly schemas: Readonly<Record<SchemaName, TopicSchema>>;
  /** What the log's records are written with. */
  readonly ids: SchemaIds;
  /** First part of the names of all topics. */
  readonly topicPrefix: string;
  readonly catalog: Pick<Catalog, 'get' | 'list'>;
  readonly adminKey: string;
  /** The tenant of a request's `X-API-Key`, whose rate it counts for. Never forwarded: every process has all schemas. */
  readonly authenticate: (request: IncomingMessage) => Principal | Promise<Principal>;
  readonly limits: { readonly maxBodyBytes: number; readonly maxJsonDepth: number };
}

/** A refusal in the words and numbers of Confluent's interface. */
export class RegistryError extends ForeignError {
  constructor(
    readonly status: number,
    readonly errorCode: number,
    message: string,
  ) {
    super(message);
  }
}

export const REGISTRY_TYPE = 'application/vnd.schemaregistry.v1+json';
/** What Confluent's registry takes for JSON. */
const JSON_TYPES = /^application\/(?:vnd\.schemaregistry(?:\.v1)?\+json|json|octet-stream)\s*(?:;|$)/i;
const BODY = z.object({ schema: z.string(), schemaType: z.string().nullish() });

const noSubject = (subject: string): RegistryError => new RegistryError(404, 40401, `Subject '${subject}' not found.`);
const noSchema = (what: string): RegistryError => new RegistryError(404, 40403, `Schema${what} not found`);
export const readOnly = (subject: string): RegistryError =>
  new RegistryError(
    422,
    42205,
    `Subject ${subject} is in read-only mode: the service itself keeps the schemas of its topics`,
  );

/** Whose subjects a caller sees: those of its own topics; undefined: all (the admin). */
export type Scope = string | undefined;

/**
 * The schemas of this service's own topics, for those who ask for them as Confluent's registry is asked. Subjects are the topics'
 * (`<topic>-value`, TopicNameStrategy) and the records' names (RecordNameStrategy). All methods throw RegistryError.
 */
export class SchemaRegistry {
  readonly #options: SchemaRegistryOptions;
  readonly #requireAdmin: (request: IncomingMessage) => void;
  readonly #subjects: SubjectNames;
  readonly #byId: ReadonlyMap<string, TopicSchema>;
  readonly #known: ReadonlyMap<SchemaName, unknown>;

  constructor(options: SchemaRegistryOptions) {
    const { schemas, ids } = options;
    this.#options = options;
    this.#requireAdmin = adminCheck(options.adminKey);
    this.#subjects = new SubjectNames(options);
    this.#byId = new Map(Object.values(schemas).map((schema) => [String(ids[schema.name]), schema]));
    this.#known = new Map(Object.values(schemas).map((schema) => [schema.name, canonicalSchema(schema.schema)]));
  }

  /**
   * By an API key or the admin key, in our headers or as the password of `basic.auth.user.info` (of the user `admin` for the
   * admin key). @throws StatefoldError UNAUTHENTICATED, RATE_LIMITED
   */
  async authorise(request: IncomingMessage): Promise<Scope> {
    takeBasicAuth(request);
    if (request.headers['x-admin-key'] === undefined) return (await this.#options.authenticate(request)).tenantId;
    this.#requireAdmin(request);
    return undefined;
  }

  subjects(scope: Scope): string[] {
    return this.#subjects.list(scope);
  }

  /** The numbers of the subject's versions, the first one first. */
  versions(subject: string, scope: Scope): number[] {
    return this.#schemasOf(subject, scope).map(({ name }) => versionNumber(name));
  }

  /** `version`: a number from 1, `latest` or `-1`. */
  version(subject: string, version: string, scope: Scope): TopicSchema {
    const known = this.#schemasOf(subject, scope);
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
  }

  withId(id: string): TopicSchema {
    const schema = this.#byId.get(id);
    if (schema === undefined) throw noSchema(` ${id}`);
    return schema;
  }

  /** The subjects that have the schema in one of their versions. */
  using(id: string, scope: Scope): string[] {
    const [first] = versionsOf(this.withId(id).name);
    return this.#subjects.list(scope).filter((subject) => this.#subjects.schemaOf(subject, scope) === first);
  }

  /** The subject's version that the body has. */
  async find(request: IncomingMessage, subject: string, scope: Scope): Promise<TopicSchema> {
    const versions = this.#schemasOf(subject, scope);
    const asked = await this.#given(request);
    const schema = versions.find(({ name }) => isDeepStrictEqual(asked, this.#known.get(name)));
    if (schema === undefined) throw noSchema('');
    return schema;
  }

  /** The id of the schema in the body, which the subject must have already. */
  async register(request: IncomingMessage, subject: string, scope: Scope): Promise<number> {
    const of = this.#subjects.schemaOf(subject, scope);
    const schema = await this.#given(request);
    const name =
      of === undefined
        ? undefined
        : versionsOf(of).find((version) => isDeepStrictEqual(schema, this.#known.get(version)));
    if (name === undefined) throw readOnly(subject);
    return this.#options.ids[name];
  }

  describe(subject: string, { name, text }: TopicSchema): object {
    return { subject, version: versionNumber(name), id: this.#options.ids[name], schema: text };
  }

  #schemasOf(subject: string, scope: Scope): readonly TopicSchema[] {
    const name = this.#subjects.schemaOf(subject, scope);
    if (name === undefined) throw noSubject(subject);
    return versionsOf(name).map((version) => this.#options.schemas[version]);
  }

  /** The schema of a body, as a value; undefined when it is no Avro. */
  async #given(request: IncomingMessage): Promise<unknown> {
    const { limits } = this.#options;
    const { schema, schemaType } = await readRegistryBody(request, limits);
    if ((schemaType ?? 'AVRO') !== 'AVRO') return undefined;
    try {
      scanJson(Buffer.from(schema), { maxDepth: limits.maxJsonDepth, maxValues: MAX_JSON_VALUES });
    } catch (error) {
      throw new RegistryError(422, 42201, `Invalid schema: ${(error as Error).message}`);
    }
    return canonicalSchema(JSON.parse(schema));
  }
}

/** From 1. */
export const versionNumber = (name: SchemaName): number => versionsOf(name).indexOf(name) + 1;

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
function takeBasicAuth({ headers }: IncomingMessage): void {
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
  request: IncomingMessage,
  { maxBodyBytes, maxJsonDepth }: SchemaRegistryOptions['limits'],
): Promise<z.infer<typeof BODY>> {
  if (!JSON_TYPES.test(request.headers['content-type'] ?? ''))
    throw new StatefoldError('UNSUPPORTED_MEDIA_TYPE', `HTTP 415 Unsupported Media Type: send ${REGISTRY_TYPE}`);
  const body = await readInTurn(request, maxBodyBytes);
  try {
    scanJson(body, { maxDepth: maxJsonDepth, maxValues: MAX_JSON_VALUES });
  } catch (error) {
    if (error instanceof JsonError) throw new RegistryError(400, 400, `The body is not valid JSON: ${error.message}.`);
    throw error;
  }
  const parsed = BODY.safeParse(JSON.parse(body.toString()));
  if (!parsed.success)
    throw new RegistryError(422, 42201, 'Invalid schema: the body needs the member "schema", a text');
  return parsed.data;
}
