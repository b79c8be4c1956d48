import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import type { Catalog } from '../../catalog/catalog.js';
import { beginImport, dropImport, endImport, foundEmpty, type RemoveRecords } from '../../catalog/importing.js';
import { hasCode, NotOwnerError, StatefoldError } from '../../core/errors.js';
import { MAX_COMMIT_EVENTS, type NewEvent } from '../../core/event.js';
import { uuidv7 } from '../../core/ids.js';
import { JsonError } from '../../core/json-scanner.js';
import type { Logger } from '../../core/logger.js';
import { partitionOf } from '../../core/murmur2.js';
import type { AggregateHome } from '../../aggregates/aggregates.js';
import type { AggregateHomes, Tenants } from '../../tenancy/tenant.js';
import { allEndpoints, hasUrl } from '../../webhooks/endpoint-entities.js';
import type { Admission } from '../admission.js';
import { RequestAbortedError } from '../body.js';
import { ForwardCall } from '../gateway/forward-call.js';
import type { Gateway } from '../gateway/gateway.js';
import { isForwarded, NOT_OWNER } from '../gateway/headers.js';
import { ChunkSource, LineSplitter, type Line, type TooLong } from '../bulk/line-source.js';
import { CHUNK_COST, LineTurns } from '../bulk/line-turns.js';
import { parseCloudEvent, type ImportedEvent } from './cloud-event-line.js';

/** Which ids an import has had: each event has one of its own. */
export interface SeenIds {
  /** Resolves with true when the id was not there before. */
  add(id: Buffer): Promise<boolean>;
  close(): Promise<void>;
}

export interface ImportOptions {
  readonly catalog: Catalog;
  readonly tenants: Tenants & AggregateHomes;
  readonly gateway: Gateway;
  readonly admission: Pick<Admission, 'memory' | 'turns'>;
  readonly remove: RemoveRecords;
  readonly seenIds: () => SeenIds;
  readonly limits: { readonly maxBodyBytes: number; readonly maxDepth: number };
  readonly idleMs: number;
  /** The request may take longer to arrive than others. */
  readonly untimed: (request: IncomingMessage) => void;
  readonly logger: Logger;
}

/** What came of an import. */
export interface Imported {
  readonly events: number;
  /** Of the last one in the tenant's feed; 0 where there is none. */
  readonly position: number;
}

/** Of events that follow each other, are of one aggregate and of one time, so many go into one record. */
const TOGETHER = { events: Math.min(1_000, MAX_COMMIT_EVENTS), bytes: 256 * 1024 };
/** What is on its way into the log. */
const UNDER_WAY = { records: 2_000, bytes: 8 * 1024 * 1024 };
/** Of a line beside data and metadata, whose quotes may be escaped. */
const AROUND = 16 * 1024;
const EMPTY = Buffer.alloc(0);

/** `POST /admin/tenants/{id}/import`: takes the events of a tenant from elsewhere, all of them or none. */
export class ImportRoute {
  readonly #options: ImportOptions;
  readonly #running = new Map<string, Import>();

  constructor(options: ImportOptions) {
    this.#options = options;
  }

  /** Undefined: another process has answered. @throws StatefoldError as the interface has it; then nothing of it stays */
  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    tenantId: string,
    requestId: string,
  ): Promise<Imported | undefined> {
    const { gateway, untimed, logger } = this.#options;
    untimed(request);
    const owner = gateway.ownerOf(tenantId);
    if (owner !== 'self') {
      if (isForwarded(request)) {
        response.setHeader(NOT_OWNER, '1');
        throw new NotOwnerError();
      }
      if (owner === undefined) throw nobody();
      return this.#forward(owner.url, request, response, requestId);
    }
    if (this.#running.has(tenantId))
      throw new StatefoldError(
        'TENANT_NOT_EMPTY',
        `An import into the tenant ${tenantId} is under way: wait until it has ended.`,
      );
    const running = new Import(this.#options, request, tenantId);
    this.#running.set(tenantId, running);
    try {
      const imported = await running.run();
      logger.info({ tenantId, ...imported }, 'events were imported');
      return imported;
    } finally {
      this.#running.delete(tenantId);
    }
  }

  /** Imports end, and what they stored is dropped. */
  close(): void {
    for (const running of this.#running.values()) running.stop();
  }

  async #forward(
    url: string,
    request: IncomingMessage,
    response: ServerResponse,
    requestId: string,
  ): Promise<undefined> {
    const call = new ForwardCall(response, { repeatable: false, whole: false });
    if (!(await this.#options.gateway.stream(url, request, requestId, bodyOf(request), call))) throw nobody();
    const attempt = await call.result;
    if (attempt.kind !== 'failed' || response.headersSent || response.destroyed) return undefined;
    throw nobody();
  }
}

/** What is sent on of the request. Its end is not the request's, whose client is to read an answer that comes before it has sent all. */
function bodyOf(request: IncomingMessage): Readable {
  const body = new PassThrough();
  // Where nobody sends it on, nobody hears of its end.
  body.on('error', () => undefined);
  request.once('close', () => {
    if (!request.complete) body.destroy(new RequestAbortedError('the client closed the connection'));
  });
  return request.pipe(body);
}

/** The events of one record, and where they came from. */
interface Group {
  readonly line: number;
  readonly first: ImportedEvent;
  readonly events: NewEvent[];
  readonly ids: Buffer[];
  bytes: number;
}

class Import {
  readonly #options: ImportOptions;
  readonly #tenantId: string;
  readonly #source: ChunkSource;
  readonly #lines: LineSplitter;
  readonly #turns: LineTurns;
  readonly #partitions: number;
  #seen: SeenIds | undefined;
  #group: Group | undefined;
  /** On their way into the log, in their order. */
  #underWay: { readonly done: Promise<void>; readonly bytes: number }[] = [];
  #bytes = 0;
  /** Of the last record; whose events have their places before those of another partition are written. */
  #partition: number | undefined;
  #failed: { readonly line: number; readonly error: unknown } | undefined;
  #events = 0;
  #position = 0;
  #stopping = false;

  constructor(options: ImportOptions, request: IncomingMessage, tenantId: string) {
    this.#options = options;
    this.#tenantId = tenantId;
    this.#source = new ChunkSource(request, options.idleMs);
    this.#lines = new LineSplitter(2 * options.limits.maxBodyBytes + AROUND);
    this.#turns = new LineTurns(options.admission.turns, tenantId);
    this.#partitions = options.tenants.partitionsOf(tenantId);
  }

  stop(): void {
    this.#stopping = true;
    this.#source.end('stopped');
  }

  async run(): Promise<Imported> {
    const { catalog, remove, logger } = this.#options;
    const tenantId = this.#tenantId;
    const before = catalog.get('tenant', tenantId)?.value;
    // One that was broken off is dropped first. A tenant that has events goes on as it is.
    if (before?.importing === undefined) await this.#mustBeEmpty();
    const importId = await beginImport(catalog, tenantId, remove);
    try {
      // What came in until the tenant was closed.
      await this.#mustBeEmpty();
    } catch (error) {
      if (hasCode(error, 'TENANT_NOT_EMPTY')) await endImport(catalog, tenantId, importId);
      throw error;
    }
    await foundEmpty(catalog, tenantId, importId);
    try {
      this.#seen = this.#options.seenIds();
      await this.#read();
      await endImport(catalog, tenantId, importId);
      return { events: this.#events, position: this.#position };
    } catch (error) {
      await Promise.allSettled(this.#underWay.map(({ done }) => done));
      await dropImport(catalog, tenantId, importId, remove).catch((err: unknown) =>
        logger.warn(
          { err, tenantId },
          'what an import has stored could not be dropped now; the tenant stays closed until the import is repeated',
        ),
      );
      throw error;
    } finally {
      await this.#seen?.close();
    }
  }

  async #mustBeEmpty(): Promise<void> {
    const tenant = await this.#options.tenants.open(this.#tenantId);
    await tenant.events.caughtUp();
    if ((await tenant.events.latest()) > 0 || (await tenant.aggregates.types({ after: '', limit: 1 })).length > 0)
      throw new StatefoldError(
        'TENANT_NOT_EMPTY',
        `The tenant ${this.#tenantId} has events: an import needs a tenant without any. Make a new one for it.`,
      );
    this.#mustTellNobody();
  }

  /** Receivers were told of these events once, where they come from: history is not sent to them as if it were new. */
  #mustTellNobody(): void {
    const told = allEndpoints(this.#options.catalog, this.#tenantId).filter(
      (endpoint) => hasUrl(endpoint) && endpoint.disabledAt === undefined,
    );
    if (told.length > 0)
      throw new StatefoldError(
        'TENANT_NOT_EMPTY',
        `The tenant ${this.#tenantId} has webhook endpoints, which would be sent all that is imported: delete ${told.map(({ endpointId }) => endpointId).join(', ')}, and make them when the import is through.`,
      );
  }

  async #read(): Promise<void> {
    for (let chunk = await this.#source.next(); chunk !== undefined; chunk = await this.#source.next()) {
      for (const line of this.#lines.push(chunk)) {
        await this.#take(line);
        if (this.#failed !== undefined) break;
      }
      if (this.#failed !== undefined) break;
      // What has come waits for no further lines: their sender may wait for it.
      await this.#flush();
      await this.#turns.pay(CHUNK_COST);
    }
    await this.#flush();
    await this.#untilAtMost(0);
    if (this.#failed !== undefined) throw atLine(this.#failed.line, this.#failed.error);
    const { ended } = this.#source;
    if (this.#stopping) throw new StatefoldError('UNAVAILABLE', `the service is shutting down; ${NOTHING}`);
    if (ended === 'gone') throw new StatefoldError('UNAVAILABLE', `the client went away; ${NOTHING}`);
    if (ended === 'idle')
      throw new StatefoldError('INVALID_REQUEST', `No line came for ${this.#options.idleMs / 1000} s; ${NOTHING}.`);
    if (this.#lines.isOpen)
      throw atLine(
        this.#lines.next,
        new StatefoldError('INVALID_REQUEST', 'the line has no end: was the file cut off?'),
      );
  }

  async #take(line: Line | TooLong): Promise<void> {
    const { limits } = this.#options;
    const { number, text } = line;
    await this.#turns.payFor(line);
    let imported: ImportedEvent;
    try {
      if (text === undefined) throw new StatefoldError('INVALID_REQUEST', 'the line is too long');
      imported = parseCloudEvent(text, limits.maxDepth, Date.now());
      if (imported.event.data.length > limits.maxBodyBytes)
        throw new StatefoldError('INVALID_REQUEST', `data has more than ${limits.maxBodyBytes} bytes`);
    } catch (error) {
      // What comes before it may be at fault too, and is told first.
      return this.#fail(number, error);
    }
    this.#isNew(number, imported.eventId);
    const group = this.#group;
    if (group !== undefined && goesOn(group, imported)) {
      group.events.push(imported.event);
      group.ids.push(imported.eventId);
      group.bytes += text.length;
      return;
    }
    await this.#flush();
    this.#group = {
      line: number,
      first: imported,
      events: [imported.event],
      ids: [imported.eventId],
      bytes: text.length,
    };
  }

  #isNew(line: number, id: Buffer): void {
    const done = (this.#seen as SeenIds).add(id).then(
      (isNew) => {
        if (!isNew)
          this.#fail(
            line,
            new StatefoldError('INVALID_REQUEST', 'id is that of an event before it; each event has one of its own'),
          );
      },
      (error: unknown) => this.#fail(line, error),
    );
    this.#underWay.push({ done, bytes: 0 });
  }

  #fail(line: number, error: unknown): void {
    if (this.#failed === undefined || line < this.#failed.line) this.#failed = { line, error };
  }

  async #flush(): Promise<void> {
    const group = this.#group;
    if (group === undefined) return;
    this.#group = undefined;
    const { admission } = this.#options;
    const { aggregateId } = group.first;
    const partition = this.#partitions === 1 ? 0 : partitionOf(aggregateId, this.#partitions);
    // Partitions are put into one order as their records come: the next one's come when the places of these are known.
    if (this.#partition !== undefined && partition !== this.#partition) await this.#untilAtMost(0);
    this.#partition = partition;
    await this.#untilAtMost(UNDER_WAY.bytes);
    const { budget, waitMs } = admission.memory;
    await budget.tenant(this.#tenantId).untilRoom('appends', group.bytes, waitMs, () => !this.#stopping);
    if (this.#failed !== undefined) return;
    const home = await this.#home(aggregateId, partition);
    const { line, first, events, ids, bytes } = group;
    const done = home
      .import({
        commandId: uuidv7(),
        keyed: false,
        requestHash: EMPTY,
        aggregateId,
        aggregateType: first.aggregateType,
        expectedVersion: first.version - 1,
        correlationId: undefined,
        causationId: undefined,
        metadata: undefined,
        events,
        given: { eventIds: ids, timestamp: first.timestamp },
      })
      .then((position) => {
        if (position === undefined)
          throw new StatefoldError(
            'UNAVAILABLE',
            'the order of the tenant is not written now; repeat the import later',
          );
        this.#events += events.length;
        this.#position = Math.max(this.#position, position);
      })
      .catch((error: unknown) => this.#fail(line, ofVersion(error, first)));
    this.#bytes += bytes;
    this.#underWay.push({ done, bytes });
  }

  async #home(aggregateId: string, partition: number): Promise<AggregateHome> {
    try {
      return await this.#options.tenants.home(this.#tenantId, aggregateId);
    } catch (error) {
      if (partition === 0 || !(error instanceof NotOwnerError)) throw error;
      throw new StatefoldError(
        'UNAVAILABLE',
        `partition ${partition} of the tenant is served by another process: an import into several partitions needs all of them in one, so let one process run for it; ${NOTHING}`,
      );
    }
  }

  /** Waits until no more than so many bytes are under way. */
  async #untilAtMost(bytes: number): Promise<void> {
    while (
      this.#underWay.length > 0 &&
      (bytes === 0 || this.#bytes > bytes || this.#underWay.length > UNDER_WAY.records)
    ) {
      const first = this.#underWay.shift();
      await first?.done;
      this.#bytes -= first?.bytes ?? 0;
    }
  }
}

const NOTHING = 'nothing of the import was kept';

const goesOn = (
  { first, events, bytes }: Group,
  { aggregateId, aggregateType, timestamp, version }: ImportedEvent,
): boolean =>
  aggregateId === first.aggregateId &&
  aggregateType === first.aggregateType &&
  timestamp === first.timestamp &&
  version === first.version + events.length &&
  events.length < TOGETHER.events &&
  bytes < TOGETHER.bytes;

/** What the rules of appends refuse, in the words of the line. */
function ofVersion(error: unknown, { aggregateId, version }: ImportedEvent): unknown {
  if (!hasCode(error, 'VERSION_CONFLICT')) return error;
  const at = Number(error.details?.['currentVersion'] ?? 0);
  const next =
    at === 0
      ? `the first event of aggregate '${aggregateId}' has version 1`
      : `aggregate '${aggregateId}' is at version ${at}, so the next event has ${at + 1}`;
  return new StatefoldError('INVALID_REQUEST', `aggregateversion is ${version}, but ${next}`);
}

/** What is wrong with a line is the client's to put right; all else is told as it is. */
function atLine(line: number, error: unknown): unknown {
  const isLines = error instanceof JsonError || (error instanceof StatefoldError && !error.retryable);
  if (!isLines) return error;
  const what =
    error instanceof JsonError ? `the line is not valid JSON: ${error.message}` : error.message.replace(/\.$/, '');
  return new StatefoldError('INVALID_REQUEST', `Line ${line}: ${what}; ${NOTHING}.`, { details: { line } });
}

const nobody = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'no process serves the tenant now; repeat the import: what one that was broken off stored is dropped then',
  );
