import type { Catalog, EventTypeEntity } from '../catalog/catalog.js';
import type { Clock } from '../core/clock.js';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { TenantTurns } from '../inspection/tenant-turns.js';
import type { Inspectable } from '../tenancy/inspection.js';
import type { DataCheck } from './data-check.js';
import { eventTypeId } from './event-schemas.js';
import { inSlices, type Sliced } from '../core/slices.js';
import { JsonSchema, MAX_SCHEMA_BYTES, type IgnoredKeyword } from './json-schema.js';
import type { LargeChecks } from './large-events.js';
import { AT, checkStoredEvents, type ReadSchema, type StoredEventsChecked } from './stored-events.js';

/** Of one tenant; `docs/reference/limits.md` tells them. */
const MAX_EVENT_SCHEMAS = 500;
const MAX_EVENT_SCHEMAS_BYTES = 1024 * 1024;
/** Checks of stored events at once, of all tenants; of each tenant one. */
const AT_ONCE = 1;

/** What a schema would say of the events that are stored. */
export interface SchemaCheck extends StoredEventsChecked {
  /** What checks nothing in it: the first ones. */
  readonly ignored: readonly IgnoredKeyword[];
  /** How many there are. */
  readonly ignoredCount: number;
}

/** Schemas of event types. All reject with a StatefoldError. */
export interface EventTypes {
  get(tenantId: string, eventType: string): EventTypeEntity | undefined;
  list(tenantId: string): readonly EventTypeEntity[];
  /**
   * Counts the stored events that don't fit, and changes nothing. INVALID_REQUEST where the schema is none; RATE_LIMITED while another one of
   * the tenant is under way, or its turn does not come.
   */
  check(tenantId: string, eventType: string, schema: unknown): Promise<SchemaCheck>;
  /** From the answer on every append to the tenant is held to it, in every process. As `check`, and QUOTA_EXCEEDED, UNAVAILABLE. */
  put(
    tenantId: string,
    eventType: string,
    schema: unknown,
  ): Promise<{ readonly entity: EventTypeEntity; readonly check: SchemaCheck }>;
  /** NOT_FOUND where it has none. */
  remove(tenantId: string, eventType: string): Promise<void>;
}

export interface EventTypeServiceOptions {
  readonly catalog: Catalog;
  readonly tenants: Inspectable;
  /** Resolves when whoever may append to the tenant knows what the catalog has now. @throws StatefoldError UNAVAILABLE */
  readonly ownersKnow: (tenantId: string) => Promise<void>;
  readonly large: LargeChecks;
  /** Of one look at the stored events. */
  readonly deadlineMs: number;
  readonly clock: Clock;
}

export class EventTypeService implements EventTypes {
  readonly #options: EventTypeServiceOptions;
  readonly #turns = new TenantTurns(AT_ONCE, 'a check of stored events');

  constructor(options: EventTypeServiceOptions) {
    this.#options = options;
  }

  get(tenantId: string, eventType: string): EventTypeEntity | undefined {
    return this.#options.catalog.get('eventType', eventTypeId(tenantId, eventType))?.value;
  }

  list(tenantId: string): readonly EventTypeEntity[] {
    return this.#options.catalog.list('eventType', tenantId).map(({ value }) => value);
  }

  check(tenantId: string, eventType: string, schema: unknown): Promise<SchemaCheck> {
    return this.#inTurn(tenantId, schema, (read) => this.#check(tenantId, eventType, read));
  }

  async put(
    tenantId: string,
    eventType: string,
    schema: unknown,
  ): Promise<{ readonly entity: EventTypeEntity; readonly check: SchemaCheck }> {
    // The turn is waited for before anything is changed; what is stored is looked at when nothing more comes that doesn't fit.
    return this.#inTurn(tenantId, schema, async (read) => {
      const { text } = read;
      this.#requireRoom(tenantId, eventType, text);
      const { catalog, clock, ownersKnow } = this.#options;
      const entry = await catalog.upsert('eventType', eventTypeId(tenantId, eventType), (had) =>
        had?.schema === text
          ? undefined
          : {
              ...{ tenantId, eventType, schema: text },
              schemaVersion: (had?.schemaVersion ?? 0) + 1,
              changedAt: isoTimestamp(clock.now()),
            },
      );
      // Its deletion may not have seen the schema: a tenant that is made again under the id would have it.
      if (catalog.get('tenant', tenantId) === undefined) {
        await catalog.remove('eventType', eventTypeId(tenantId, eventType));
        throw new StatefoldError('NOT_FOUND', `tenant '${tenantId}' was deleted meanwhile`);
      }
      await ownersKnow(tenantId);
      if (entry === undefined)
        throw new StatefoldError('UNAVAILABLE', 'the schema was removed meanwhile; look, and send it again');
      return { entity: entry.value, check: await this.#check(tenantId, eventType, read) };
    });
  }

  async remove(tenantId: string, eventType: string): Promise<void> {
    const { catalog, ownersKnow } = this.#options;
    if (this.get(tenantId, eventType) === undefined)
      throw new StatefoldError('NOT_FOUND', `the event type '${eventType}' has no schema`);
    await catalog.remove('eventType', eventTypeId(tenantId, eventType));
    await ownersKnow(tenantId);
  }

  #requireRoom(tenantId: string, eventType: string, text: string): void {
    const others = this.list(tenantId).filter((one) => one.eventType !== eventType);
    const bytes = others.reduce((sum, { schema }) => sum + Buffer.byteLength(schema), Buffer.byteLength(text));
    if (others.length >= MAX_EVENT_SCHEMAS)
      throw new StatefoldError(
        'QUOTA_EXCEEDED',
        `The tenant has ${others.length} schemas of event types, and may have ${MAX_EVENT_SCHEMAS}: delete what is not needed.`,
        { details: { quota: 'eventSchemas', usage: others.length, limit: MAX_EVENT_SCHEMAS } },
      );
    if (bytes > MAX_EVENT_SCHEMAS_BYTES)
      throw new StatefoldError(
        'QUOTA_EXCEEDED',
        `The tenant's schemas of event types would have ${bytes} bytes together, and may have ${MAX_EVENT_SCHEMAS_BYTES}: delete what is not needed.`,
        { details: { quota: 'eventSchemaBytes', usage: bytes, limit: MAX_EVENT_SCHEMAS_BYTES } },
      );
  }

  #inTurn<T>(tenantId: string, schema: unknown, work: (read: ReadSchema) => Promise<T>): Promise<T> {
    return this.#turns.once(tenantId, async () => {
      const compiled = await read(schema);
      return this.#turns.take(tenantId, this.#options.deadlineMs, () => work(compiled));
    });
  }

  async #check(tenantId: string, eventType: string, schema: ReadSchema): Promise<SchemaCheck> {
    const { tenants, large, deadlineMs } = this.#options;
    const until = performance.now() + deadlineMs;
    const partitions = await (await tenants.inspection(tenantId)).aggregates();
    await Promise.all(partitions.map((partition) => partition.caughtUpAsOwner()));
    const checkLarge = (data: Buffer): Promise<DataCheck> => large.check(tenantId, schema.text, data, AT);
    const stored = await checkStoredEvents(partitions, eventType, schema, checkLarge, () => performance.now() > until);
    const { ignored, ignoredCount } = schema.compiled;
    return { ...stored, ignored, ignoredCount };
  }
}

/** Where the schema is in the body. */
const PLACE = '/schema';

/** Steps of a compilation on one turn of the event loop: a millisecond or two. */
const STEPS_PER_TURN = 10_000;

/** @throws StatefoldError INVALID_REQUEST */
async function read(schema: unknown): Promise<ReadSchema> {
  const text = JSON.stringify(schema) ?? '';
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_SCHEMA_BYTES)
    throw new StatefoldError(
      'INVALID_REQUEST',
      `The schema has ${bytes} bytes as JSON without white space; at most ${MAX_SCHEMA_BYTES} are taken.`,
      { errors: [{ pointer: PLACE, message: `must have at most ${MAX_SCHEMA_BYTES} bytes` }] },
    );
  return { compiled: await inSlices(compiling(schema)), text };
}

function* compiling(schema: unknown): Sliced<JsonSchema> {
  const pieces = JsonSchema.pieces(schema, PLACE);
  for (let steps = 0; ;) {
    const { done, value } = pieces.next();
    if (done === true) return value;
    if ((steps += value) < STEPS_PER_TURN) continue;
    steps = 0;
    yield;
  }
}
