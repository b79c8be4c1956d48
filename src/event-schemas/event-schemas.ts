import { LRUCache } from 'lru-cache';
import type { EventChecks, EventsToCheck } from '../aggregates/partition.js';
import type { Catalog, EventTypeEntity } from '../catalog/catalog.js';
import { hasCode, StatefoldError, type FieldError } from '../core/errors.js';
import { SharedCache } from '../core/shared-cache.js';
import { CheckQueue, type Checks } from './check-queue.js';
import { checkData, type DataCheck } from './data-check.js';
import { JsonSchema } from './json-schema.js';
import { LARGE_EVENT, type LargeChecks } from './large-events.js';
import { Run, stepsFor } from './run.js';

export const eventTypeId = (tenantId: string, eventType: string): string => `${tenantId}/${eventType}`;

/** Of compiled schemas in memory, those of one tenant and those of all together: the others are compiled again when an event needs them. */
const TENANT_BYTES = 16 * 1024 * 1024;
const PROCESS_BYTES = 64 * 1024 * 1024;
/** Characters of a schema whose compilation costs as much as a step of a check. */
const COMPILED_PER_STEP = 4;

/** A tenant's, compiled: those that were needed last. */
class CompiledSchemas {
  readonly #shared: SharedCache;
  readonly #schemas = new LRUCache<EventTypeEntity, JsonSchema>({
    maxSize: TENANT_BYTES,
    sizeCalculation: ({ bytes }) => bytes,
  });
  readonly #forget = (): void => this.#schemas.clear();

  constructor(shared: SharedCache) {
    this.#shared = shared;
  }

  /** Tells what each piece cost that it had to compile now. @throws StatefoldError INVALID_REQUEST where this version can't */
  *of(entity: EventTypeEntity): Generator<number, JsonSchema, void> {
    const known = this.#schemas.get(entity);
    if (known !== undefined) return known;
    const schema = yield* JsonSchema.pieces(JSON.parse(entity.schema));
    this.#schemas.set(entity, schema);
    this.#share();
    yield entity.schema.length / COMPILED_PER_STEP;
    return schema;
  }

  delete(entity: EventTypeEntity): void {
    if (this.#schemas.delete(entity)) this.#share();
  }

  #share(): void {
    this.#shared.set(this.#forget, this.#schemas.calculatedSize);
  }
}

interface TenantSchemas {
  readonly tenantId: string;
  readonly types: Map<string, EventTypeEntity>;
  readonly compiled: CompiledSchemas;
  readonly queue: CheckQueue;
}

/** Bytes whose parsing costs as much as a step. */
const PARSED_PER_STEP = 64;

/** The schemas of all tenants' event types, as the catalog has them now. */
export class EventSchemas {
  /** A tenant without schemas has no entry, and pays nothing. */
  readonly #tenants = new Map<string, TenantSchemas>();
  readonly #shared = new SharedCache(PROCESS_BYTES);
  readonly #large: LargeChecks;

  constructor(catalog: Pick<Catalog, 'list' | 'onChange'>, large: LargeChecks) {
    this.#large = large;
    for (const { value } of catalog.list('eventType', undefined)) this.#set(value);
    catalog.onChange((change) => {
      if (change.kind !== 'eventType') return;
      if (change.value !== undefined) this.#set(change.value);
      else if (change.previous !== undefined) this.#delete(change.previous);
    });
  }

  #set(entity: EventTypeEntity): void {
    let tenant = this.#tenants.get(entity.tenantId);
    if (tenant === undefined)
      this.#tenants.set(
        entity.tenantId,
        (tenant = {
          tenantId: entity.tenantId,
          types: new Map(),
          compiled: new CompiledSchemas(this.#shared),
          queue: new CheckQueue(),
        }),
      );
    const before = tenant.types.get(entity.eventType);
    if (before !== undefined) tenant.compiled.delete(before);
    tenant.types.set(entity.eventType, entity);
  }

  #delete(entity: EventTypeEntity): void {
    const { tenantId, eventType } = entity;
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return;
    const before = tenant.types.get(eventType);
    if (before !== undefined) tenant.compiled.delete(before);
    tenant.types.delete(eventType);
    this.#forgetIdle(tenantId, tenant);
  }

  /** What waits for checks of types that have a schema no more is not overtaken either. */
  #forgetIdle(tenantId: string, { types, queue }: TenantSchemas): boolean {
    return types.size === 0 && queue.isIdle && this.#tenants.delete(tenantId);
  }

  /** Of compiled schemas that are in memory, bytes, about. */
  get bytes(): number {
    return this.#shared.bytes;
  }

  /** What all forms of appends ask. */
  of(tenantId: string): EventChecks {
    return {
      unfit: (appends) => {
        const tenant = this.#tenants.get(tenantId);
        if (tenant === undefined || this.#forgetIdle(tenantId, tenant)) return undefined;
        const { types, queue } = tenant;
        if (appends.some(({ events }) => events.some(({ eventType }) => types.has(eventType))))
          return queue.run(this.#checks(tenant, appends));
        // What waits for its checks is not overtaken.
        return queue.isIdle ? undefined : queue.run(none());
      },
    };
  }

  *#checks({ tenantId, types, compiled }: TenantSchemas, appends: readonly EventsToCheck[]): Checks {
    for (const { events, eventsAt } of appends)
      for (const [i, { eventType, data }] of events.entries()) {
        const entity = types.get(eventType);
        if (entity === undefined) continue;
        const at = eventsAt === undefined ? '/data' : `/${eventsAt}/${i}/data`;
        try {
          const check: DataCheck =
            data.length < LARGE_EVENT
              ? yield* checkedHere(compiled, entity, data, at)
              : yield* awaited(this.#large.check(tenantId, entity.schema, data, at));
          // The first event that doesn't fit is told, with all of its places.
          if (check.kind === 'unfit') return violation(entity, check.violations);
          if (check.kind === 'too_costly') return refused(entity, at, TOO_COSTLY_MESSAGE);
        } catch (error) {
          // It was taken by another version of the service. To let anything in would be worse.
          if (hasCode(error, 'INVALID_REQUEST')) return refused(entity, at, UNUSABLE);
          throw error;
        }
      }
    return undefined;
  }
}

/** On the event loop; tells what it took. @throws as `CompiledSchemas.of` */
function* checkedHere(
  compiled: CompiledSchemas,
  entity: EventTypeEntity,
  data: Buffer,
  at: string,
): Generator<number, DataCheck, void> {
  const schema = yield* compiled.of(entity);
  const steps = stepsFor(data.length);
  const run = new Run(at, steps);
  const check = checkData(schema, data, run);
  yield steps - run.steps + data.length / PARSED_PER_STEP;
  return check;
}

/** Gives way until it is there. @throws what it rejects with */
function* awaited<T>(promise: Promise<T>): Generator<Promise<void>, T, void> {
  const outcome: { result?: PromiseSettledResult<T> | undefined } = {};
  yield Promise.allSettled([promise]).then(([result]) => void (outcome.result = result));
  if (outcome.result?.status === 'fulfilled') return outcome.result.value;
  throw outcome.result?.reason;
}

// eslint-disable-next-line require-yield -- there is nothing to check
function* none(): Checks {
  return undefined;
}

function violation({ eventType, schemaVersion }: EventTypeEntity, violations: readonly FieldError[]): StatefoldError {
  const [first, ...more] = violations;
  const what = first === undefined ? '' : `: ${first.pointer} ${first.message}`;
  return new StatefoldError(
    'SCHEMA_VIOLATION',
    `The data of '${eventType}' does not fit the schema of its type (version ${schemaVersion})${what}${more.length > 0 ? `, and ${more.length} more` : ''}; nothing was stored.`,
    { errors: violations, details: { eventType, schemaVersion } },
  );
}

export const TOO_COSTLY_MESSAGE =
  'takes more steps to check than a value of its size may: simplify the schema of its type';

const UNUSABLE = 'has a schema that this version of the service can not use: set it again';

const refused = ({ eventType, schemaVersion }: EventTypeEntity, pointer: string, message: string): StatefoldError =>
  new StatefoldError(
    'SCHEMA_VIOLATION',
    `The data of '${eventType}' ${message} (version ${schemaVersion}); nothing was stored.`,
    { errors: [{ pointer, message }], details: { eventType, schemaVersion } },
  );
