import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry';
import { pause } from '../../core/pause.js';
import { StartupError } from '../../core/startup-error.js';
import type { SchemaIds, SchemaName, TopicSchema } from '../codec/schemas.js';

export interface RegisterSchemasOptions {
  /** Of a Confluent-compatible registry; credentials may be in it. */
  readonly url: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly schemas: Readonly<Record<SchemaName, TopicSchema>>;
  /** How long the registry may be away before it is given up, in ms. */
  readonly deadlineMs?: number;
}

/** The registry did not give the ids. The message names it, and says what to do. */
export class SchemaRegistryError extends StartupError {
  override readonly name = 'SchemaRegistryError';
}

const DEADLINE_MS = 30_000;
const REQUEST_MS = 5_000;
const PAUSE_MS = 250;
/** Answers that another attempt would not change: no right, no such path, an incompatible schema, read only. */
const FINAL = new Set([401, 403, 404, 405, 409, 422]);

/**
 * Gives the ids under which the registry has our schemas, after registering those that it lacks. Each is under the subject of
 * its record's name (RecordNameStrategy): one for the topics of all tenants, which a registry can list and hold compatible.
 * Where they are there already, a user who may only read is enough.
 * @throws SchemaRegistryError when the registry is away for the whole deadline, or refuses
 */
export async function registerSchemas({
  url,
  username,
  password,
  schemas,
  deadlineMs = DEADLINE_MS,
}: RegisterSchemasOptions): Promise<SchemaIds> {
  const host = new URL(url);
  const auth = {
    username: username ?? decodeURIComponent(host.username),
    password: password ?? decodeURIComponent(host.password),
  };
  host.username = host.password = '';
  const shown = host.href.replace(/\/$/, '');
  const agent = host.protocol === 'https:' ? new HttpsAgent() : new HttpAgent();
  const registry = new SchemaRegistry({
    host: shown,
    agent,
    // Attempts are counted here, by the deadline.
    retry: { retries: 0 },
    middlewares: [
      () => ({ prepareRequest: (next) => next().then((request) => request.enhance({ timeout: REQUEST_MS })) }),
    ],
    ...(auth.username === '' ? {} : { auth }),
  });
  const deadline = performance.now() + deadlineMs;
  const overdue = new AbortController();
  const timer = setTimeout(() => overdue.abort(), deadlineMs);
  const aborted = new Promise<never>((_resolve, reject) =>
    overdue.signal.addEventListener('abort', () => reject(new Error('it does not answer'))),
  );

  const idOf = async (name: SchemaName): Promise<number> => {
    for (;;) {
      try {
        return await Promise.race([registered(registry, schemas[name]), aborted]);
      } catch (error) {
        if (FINAL.has(statusOf(error)) || isCompatibilityError(error))
          throw new SchemaRegistryError(`${refusal(shown, schemas[name].recordName, error)}.`, { cause: error });
        if (performance.now() + PAUSE_MS >= deadline)
          throw new SchemaRegistryError(
            `The schema registry at ${shown} gives no ids: ${messageOf(error)}. Start it, or correct SCHEMA_REGISTRY_URL.`,
            { cause: error },
          );
        await pause(PAUSE_MS, { ref: true });
      }
    }
  };
  try {
    const ids = {
      events: await idOf('events'),
      changes: await idOf('changes'),
      catalog: await idOf('catalog'),
      order: await idOf('order'),
      events2: await idOf('events2'),
      changes2: await idOf('changes2'),
      events3: await idOf('events3'),
      events4: await idOf('events4'),
    };
    for (const id of Object.values(ids))
      if (!Number.isInteger(id) || id < 1 || id > 0x7fff_ffff)
        throw new SchemaRegistryError(
          `The schema registry at ${shown} answers no schema ids: it gave ${JSON.stringify(ids)}.`,
        );
    return ids;
  } finally {
    clearTimeout(timer);
    agent.destroy();
  }
}

async function registered(registry: SchemaRegistry, { recordName: subject, text }: TopicSchema): Promise<number> {
  const schema = { type: SchemaType.AVRO, schema: text } as const;
  try {
    return await registry.getRegistryIdBySchema(subject, schema);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  return (await registry.register(schema, { subject })).id;
}

/** How the client tells a 404 of a look-up: by an error of its own, without the status. */
const isMissing = (error: unknown): boolean =>
  error instanceof Error && (error.name === 'ConfluentSchemaRegistryError' || statusOf(error) === 404);
const isCompatibilityError = (error: unknown): boolean =>
  error instanceof Error && error.name === 'ConfluentSchemaRegistryCompatibilityError';
const statusOf = (error: unknown): number =>
  error instanceof Error && 'status' in error && typeof error.status === 'number' ? error.status : 0;
/** Without the client's own name before it. */
const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message.replace(/^Confluent_Schema_Registry - /, '') : String(error);

function refusal(registry: string, subject: string, error: unknown): string {
  const reason = messageOf(error);
  switch (statusOf(error)) {
    case 401:
    case 403:
      return `The schema registry at ${registry} refuses the credentials (${reason}): set SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD to a user who may read and register ${subject}`;
    case 404:
    case 405:
      return `There is no schema registry at ${registry} (${reason}): correct SCHEMA_REGISTRY_URL`;
    case 409:
      return `The schema registry at ${registry} holds another schema under ${subject} that ours is not compatible with: a newer version of the service registered it, or something else uses the subject (${reason})`;
    default:
      return `The schema registry at ${registry} refuses the schema of ${subject} (${reason}): register schemas/avro there by hand, or allow it to be registered`;
  }
}
