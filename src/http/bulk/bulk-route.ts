import type { IncomingMessage, ServerResponse } from 'node:http';
import { isoTimestamp, type AppendResult } from '../../core/event.js';
import { StatefoldError } from '../../core/errors.js';
import { pause } from '../../core/pause.js';
import { partitionOf } from '../../core/murmur2.js';
import { partitionKey } from '../../core/slots.js';
import type { Scope } from '../../core/scopes.js';
import type { Catalog } from '../../catalog/catalog.js';
import { onSuspension } from '../../catalog/suspension.js';
import type { AggregateHomes } from '../../tenancy/tenant.js';
import type { Admission } from '../admission.js';
import { parseBulkLine, type BodyLimits, type BulkLineBody } from '../append-body.js';
import type { Authenticator } from '../auth.js';
import { requireNdjson } from '../body.js';
import type { Gateway } from '../gateway/gateway.js';
import { isForwarded } from '../gateway/headers.js';
import { flag, onlyParameters, queryOf, readQuery } from '../parameters.js';
import { knownError, statusOf } from '../problem.js';
import { BulkAnswers, type Slot } from './bulk-answers.js';
import { BulkItem } from './bulk-item.js';
import { BulkLane, type LaneHost, type StoredLine } from './bulk-lane.js';
import { BulkRelay, PASSED_BACK } from './bulk-relay.js';
import { ChunkSource, LineSplitter, type Line, type TooLong } from './line-source.js';
import { CHUNK_COST, LineTurns } from './line-turns.js';

export interface BulkOptions {
  readonly admission: Pick<Admission, 'requests' | 'events' | 'turns' | 'dues' | 'connections' | 'memory'> & {
    readonly authenticator: Authenticator;
  };
  readonly tenants: AggregateHomes;
  readonly catalog: Pick<Catalog, 'onChange'>;
  readonly gateway: Gateway;
  readonly limits: BodyLimits & { readonly maxBodyBytes: number };
  readonly idleMs: number;
  /** The request may take longer to arrive than others. */
  readonly untimed: (request: IncomingMessage) => void;
}

const SCOPE = 'append' satisfies Scope;
export const BULK_TYPE = 'application/x-ndjson';
/** The query of a bulk. */
export const BULK_QUERY = { state: flag };

/** Lines under way, at most; with their states fewer, which may be large. */
const LINES = 2_000;
const LINES_WITH_STATE = 200;
/** Of a turn: what a line with nothing in it costs: it is counted, and that is all. */
const BLANK_COST = 1 / 512;
/** Before the line of another process: its number, and the id of its command. */
const PREFIX = /^(\d{1,15}) ([0-9a-f-]{36}) $/;
const MOST_PREFIX = 64;
/** What a client may still send when its stream was ended, and for how long, so that it comes to read why. */
const LINGER_BYTES = 16 * 1024 * 1024;
const LINGER_MS = 2_000;

/** `POST /events/bulk`: appends line by line, each answered by a line, for as long as the client sends. */
export class BulkRoute {
  readonly #options: BulkOptions;
  readonly #streams = new Set<BulkStream>();

  constructor(options: BulkOptions) {
    this.#options = options;
    const { authenticator } = options.admission;
    authenticator.onRevoked((keyId, why) =>
      this.#endAll((stream) => stream.keyId === keyId, why === 'tenant deleted' ? deleted() : undefined),
    );
    onSuspension(options.catalog, ({ tenantId }, suspended) => {
      if (suspended) this.#endAll((stream) => stream.tenantId === tenantId);
    });
  }

  /** Resolves when the stream has ended. @throws StatefoldError where nothing was read */
  async serve(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    const { admission, untimed } = this.#options;
    const { authenticator, requests, connections, turns, dues } = admission;
    const { tenantId, keyId } = await authenticator.admit(request, SCOPE);
    const turn = turns.enter(tenantId, 1);
    dues.turned(request);
    if (turn !== undefined) await turn;
    // What another process sends on was counted there.
    const forwarded = isForwarded(request);
    if (!forwarded) requests.take(tenantId);
    dues.counted(request);
    requireNdjson(request);
    if (request.headers['idempotency-key'] !== undefined)
      throw new StatefoldError(
        'INVALID_REQUEST',
        'The header Idempotency-Key is of one append: give each line an idempotencyKey of its own.',
      );
    const query = queryOf(request.url ?? '');
    onlyParameters(query, Object.keys(BULK_QUERY));
    const { state } = readQuery(query, BULK_QUERY);
    const release = forwarded ? () => undefined : connections.take(tenantId);
    untimed(request);
    const stream = new BulkStream(this.#options, request, response, { tenantId, keyId, requestId, state, forwarded });
    this.#streams.add(stream);
    try {
      await stream.run();
    } finally {
      this.#streams.delete(stream);
      release();
    }
  }

  /** No stream reads on; what was read is answered. */
  close(): void {
    this.#endAll(() => true);
  }

  #endAll(which: (stream: BulkStream) => boolean, why?: StatefoldError): void {
    for (const stream of this.#streams) if (which(stream)) stream.stop(why);
  }
}

interface StreamOf {
  readonly tenantId: string;
  readonly keyId: string;
  readonly requestId: string;
  readonly state: boolean;
  readonly forwarded: boolean;
}

class BulkStream implements LaneHost {
  readonly tenantId: string;
  readonly keyId: string;
  readonly #options: BulkOptions;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #of: StreamOf;
  readonly #source: ChunkSource;
  readonly #lines: LineSplitter;
  readonly #turns: LineTurns;
  readonly #answers: BulkAnswers;
  readonly #lanes = new Map<string, BulkLane>();
  readonly #relays = new Map<string, BulkRelay>();
  #stopping = false;
  #stoppedFor: StatefoldError | undefined;
  /** The line with which it was seen that nothing more is taken. */
  #refusedAt: number | undefined;
  /** Why the line that is being passed over was dropped, where it wasn't too long. */
  #dropped: unknown;
  /** As the last line was answered with them: many lines after each other have one time, and one aggregate. */
  #time = { of: 0, text: isoTimestamp(0) };
  #aggregate = { of: '', text: '""' };

  constructor(options: BulkOptions, request: IncomingMessage, response: ServerResponse, of: StreamOf) {
    const { memory, turns } = options.admission;
    this.#options = options;
    this.#request = request;
    this.#response = response;
    this.#of = of;
    this.tenantId = of.tenantId;
    this.keyId = of.keyId;
    this.#source = new ChunkSource(request, options.idleMs);
    this.#lines = new LineSplitter(options.limits.maxBodyBytes + (of.forwarded ? MOST_PREFIX : 0));
    this.#turns = new LineTurns(turns, of.tenantId, () => this.#flush());
    this.#answers = new BulkAnswers(response, memory.budget.tenant(of.tenantId), {
      lines: of.state ? LINES_WITH_STATE : LINES,
      stallMs: memory.stallMs,
    });
  }

  get together(): boolean {
    return !this.#of.state;
  }

  get passesBack(): boolean {
    return this.#of.forwarded;
  }

  /** Reads no more; what was read is answered. `why`: unless given, what the key is refused for by now, or that the service ends. */
  stop(why?: StatefoldError): void {
    this.#stopping = true;
    this.#stoppedFor ??= why;
    this.#source.end('stopped');
  }

  async run(): Promise<void> {
    const { budget, waitMs } = this.#options.admission.memory;
    const tenant = budget.tenant(this.tenantId);
    const partial = tenant.hold('appends');
    let refused: unknown;
    try {
      for (let chunk = await this.#source.next(); chunk !== undefined; chunk = await this.#source.next()) {
        // Who is revoked or suspended meanwhile is stopped; that a key has expired is seen with the next bytes, and behind each wait.
        let looked = false;
        const blank = this.#lines.blank;
        for (const line of this.#lines.push(chunk)) {
          partial.set(0);
          const turn = this.#turnOf(line);
          if (turn !== undefined) {
            await turn;
            // It may have been long, and the key has expired in it.
            looked = false;
          }
          if (!looked || this.#stopping) refused ??= this.#refusal();
          looked = true;
          if (refused !== undefined) {
            this.#refusedAt = line.number;
            break;
          }
          const taken = this.#take(line);
          if (taken !== undefined) await taken;
        }
        await this.#flush();
        if (!looked) refused ??= this.#refusal();
        if (refused !== undefined) break;
        const turn = this.#turns.pay(CHUNK_COST + (this.#lines.blank - blank) * BLANK_COST);
        if (turn !== undefined) await turn;
        const more = this.#lines.partial - partial.bytes;
        if (more <= 0 || partial.tryAdd(more)) continue;
        try {
          (await tenant.acquire('appends', more, waitMs)).close();
          partial.set(this.#lines.partial);
        } catch (error) {
          // Lines that are not whole must not keep each other waiting for ever.
          this.#lines.drop();
          partial.set(0);
          this.#dropped = error;
        }
      }
      if (this.#source.ended === 'whole' && this.#lines.isOpen && refused === undefined) this.#unended();
      await this.#answers.finished();
    } finally {
      partial.close();
      for (const relay of this.#relays.values()) {
        if (this.#response.destroyed) relay.abort();
        else relay.retire();
      }
    }
    this.#end(refused);
  }

  /** Lines that were gathered to share a record wait for no further ones. */
  async #flush(): Promise<void> {
    for (const lane of this.#lanes.values()) {
      const flushed = lane.flushSoon();
      if (flushed !== undefined) await flushed;
    }
  }

  #end(refused: unknown): void {
    const { ended } = this.#source;
    if (this.#response.destroyed) return;
    if (ended === 'gone') return void this.#response.destroy();
    this.#begin();
    if (ended === 'whole' && refused === undefined) return void this.#response.end();
    const why = refused ?? (this.#stopping ? (this.#refusal() ?? closing()) : undefined);
    // A process that sent the lines on needs no word of it: what is not answered goes elsewhere.
    if (why !== undefined && !this.#of.forwarded)
      this.#response.write(refusalLine(this.#refusedAt ?? this.#lines.next, why));
    this.#endBesideBody();
  }

  /** Closing at once would reset the connection, and the client might never see the answers. */
  #endBesideBody(): void {
    const { socket } = this.#request;
    let left = LINGER_BYTES;
    const close = (): void => {
      clearTimeout(timer);
      socket.destroySoon();
    };
    const timer = setTimeout(close, LINGER_MS);
    this.#request.on('data', (chunk: Buffer) => {
      if ((left -= chunk.length) < 0) close();
    });
    this.#request.once('end', close).once('close', close).resume();
    this.#response.end();
  }

  /** The head goes out with the first line that is taken: the client may wait for it before it sends more. */
  #begin(): void {
    if (this.#response.headersSent || this.#response.destroyed) return;
    this.#response.writeHead(200, {
      'Content-Type': BULK_TYPE,
      'X-Request-Id': this.#of.requestId,
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    this.#response.flushHeaders();
  }

  /** Why nothing more is taken of this tenant, or by this key. */
  #refusal(): unknown {
    if (this.#stoppedFor !== undefined) return this.#stoppedFor;
    try {
      this.#options.admission.authenticator.authenticate(this.#request, SCOPE);
      return undefined;
    } catch (error) {
      return error;
    }
  }

  /** When there is room for the line, and for its answer. A promise only where something is waited for, as seldom: it costs as much as a short line does. */
  #turnOf(line: Line | TooLong): Promise<void> | undefined {
    this.#begin();
    const turn = this.#turns.payFor(line);
    return turn === undefined && this.#answers.hasRoom ? undefined : this.#untilRoom(turn);
  }

  async #untilRoom(turn: Promise<void> | undefined): Promise<void> {
    await turn;
    while (!this.#answers.hasRoom) {
      const changed = this.#answers.changed();
      await this.#flush();
      await changed;
    }
  }

  #take({ number, text }: Line | TooLong): Promise<void> | void {
    const { limits, gateway, tenants } = this.#options;
    let given = number;
    let line = text;
    let commandId: string | undefined;
    if (this.#of.forwarded && text !== undefined) {
      const space = text.indexOf(0x20, text.indexOf(0x20) + 1);
      const [, of, id] = PREFIX.exec(text.toString('latin1', 0, Math.min(space, MOST_PREFIX) + 1)) ?? [];
      if (of === undefined) throw new Error('a line of another process has no number');
      given = Number(of);
      commandId = id;
      line = text.subarray(space + 1);
    }
    const slot = this.#answers.add(given);
    let body: BulkLineBody;
    try {
      if (line === undefined) throw this.#passedOver();
      body = parseBulkLine(line, limits);
    } catch (error) {
      return this.refuse(slot, error);
    }
    const partitions = tenants.partitionsOf(this.tenantId);
    const slotKey = partitionKey(this.tenantId, partitions === 1 ? 0 : partitionOf(body.aggregateId, partitions));
    let lane = this.#lanes.get(slotKey);
    if (lane === undefined) this.#lanes.set(slotKey, (lane = new BulkLane(slotKey, gateway, this)));
    if (this.#relays.size > 0 || (lane.isHere && !this.#passes(line.length)))
      return this.#sendLater(lane, slot, line, body, commandId);
    const sent = lane.send(this.#itemOf(slot, line, body, commandId));
    // The first line for another process opens what leads there.
    return this.#relays.size > 0 ? this.#relayed(sent) : sent;
  }

  /** What has not passed waits for the tenant's pace and memory. */
  async #sendLater(
    lane: BulkLane,
    slot: Slot,
    line: Buffer,
    body: BulkLineBody,
    commandId: string | undefined,
  ): Promise<void> {
    if (lane.isHere && !(await this.#paced(slot, line.length))) return;
    await this.#relayed(lane.send(this.#itemOf(slot, line, body, commandId)));
  }

  #itemOf(slot: Slot, line: Buffer, body: BulkLineBody, commandId: string | undefined): BulkItem {
    return new BulkItem(slot, line, body, commandId, performance.now() + this.#options.gateway.deadlineMs);
  }

  async #relayed(sent: Promise<void> | void): Promise<void> {
    await sent;
    for (const relay of this.#relays.values())
      if (relay.isFull) {
        await this.#flush();
        await relay.drained();
      }
  }

  /** The tenant's pace and memory take a line so long now. */
  #passes(bytes: number): boolean {
    const { events, memory } = this.#options.admission;
    if (memory.budget.tenant(this.tenantId).refuses('appends', bytes) !== undefined) return false;
    try {
      events.take(this.tenantId);
      return true;
    } catch {
      return false;
    }
  }

  /** Waits until the tenant's pace and memory take a line so long; false where it is refused. */
  async #paced(slot: Slot, bytes: number): Promise<boolean> {
    const { events, memory } = this.#options.admission;
    for (;;) {
      try {
        events.take(this.tenantId);
        break;
      } catch (error) {
        // One that may send nothing is told so, line by line.
        const { retryAfterSeconds = 1, details } = knownError(error);
        if (details?.['limit'] === 0 || !(await this.#waitFor(retryAfterSeconds * 1000))) {
          this.refuse(slot, error);
          return false;
        }
      }
    }
    const tenant = memory.budget.tenant(this.tenantId);
    if (tenant.refuses('appends', bytes) !== undefined) await this.#flush();
    await tenant.untilRoom('appends', bytes, memory.waitMs, () => !this.#response.destroyed);
    return true;
  }

  /** False: the stream ends meanwhile. */
  async #waitFor(milliseconds: number): Promise<boolean> {
    await this.#flush();
    const until = performance.now() + milliseconds;
    while (performance.now() < until && !this.#stopping && !this.#response.destroyed)
      await pause(Math.min(100, until - performance.now()), { ref: true });
    return !this.#stopping && !this.#response.destroyed;
  }

  #passedOver(): unknown {
    const dropped = this.#dropped;
    this.#dropped = undefined;
    return (
      dropped ??
      new StatefoldError(
        'PAYLOAD_TOO_LARGE',
        `The line is larger than the limit of ${this.#options.limits.maxBodyBytes} bytes.`,
      )
    );
  }

  #unended(): void {
    this.#begin();
    this.refuse(
      this.#answers.add(this.#lines.next),
      new StatefoldError(
        'INVALID_REQUEST',
        'The body ends within the line, which may not be whole: end each line with a line feed, the last one too.',
      ),
    );
  }

  home(aggregateId: string): ReturnType<AggregateHomes['home']> {
    return this.#options.tenants.home(this.tenantId, aggregateId);
  }

  relayTo(url: string): BulkRelay {
    const known = this.#relays.get(url);
    if (known?.retired === false) return known;
    const { gateway } = this.#options;
    const relay = new BulkRelay({
      answers: this.#answers,
      open: (body, handler) => gateway.stream(url, this.#request, this.#of.requestId, body, handler),
      refused: ({ slot }, problem) =>
        this.#answers.answer(slot, `${JSON.stringify({ line: slot.number, ...lineOfProblem(problem) })}\n`),
    });
    this.#relays.set(url, relay);
    return relay;
  }

  stored(slot: Slot, line: StoredLine): void {
    this.#answers.answer(slot, `${this.#headOf(slot, line)}}\n`);
  }

  #headOf(slot: Slot, { eventId, aggregateId, version, timestamp, position }: StoredLine): string {
    if (timestamp !== this.#time.of) this.#time = { of: timestamp, text: isoTimestamp(timestamp) };
    if (aggregateId !== this.#aggregate.of) this.#aggregate = { of: aggregateId, text: JSON.stringify(aggregateId) };
    return (
      `{"line":${slot.number},"status":201,"eventId":"${eventId}","aggregateId":${this.#aggregate.text},` +
      `"version":${version},"timestamp":"${this.#time.text}"${position === undefined ? '' : `,"position":${position}`}`
    );
  }

  answer(slot: Slot, result: AppendResult): void {
    const { aggregateId, endVersion: version, timestamp, position } = result;
    const head = this.#headOf(slot, { eventId: result.eventIds[0] ?? '', aggregateId, version, timestamp, position });
    const { state, stateStatus } = result;
    if (!this.#of.state || (state === undefined && stateStatus === undefined)) this.#answers.answer(slot, `${head}}\n`);
    else if (state === undefined || !this.#answers.takes(state.length))
      this.#answers.answer(slot, `${head},"stateStatus":"${stateStatus ?? 'unavailable'}"}\n`);
    else this.#answers.answer(slot, `${head},"state":${state.toString('utf8')}}\n`);
  }

  refuse(slot: Slot, error: unknown): void {
    this.#answers.answer(slot, refusalLine(slot.number, error));
  }

  passBack(slot: Slot): void {
    this.#answers.answer(slot, `{"line":${slot.number},${PASSED_BACK}}\n`);
  }
}

const closing = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'the service is shutting down: this line and those behind it were not read, send them again',
  );

const deleted = (): StatefoldError =>
  new StatefoldError('NOT_FOUND', 'the tenant was deleted: this line and those behind it were not read');

function refusalLine(line: number, thrown: unknown): string {
  const { code, message, errors, details, retryable } = knownError(thrown);
  const pointer = errors?.[0]?.pointer;
  return `${JSON.stringify({
    line,
    status: statusOf(code),
    code,
    detail: message,
    ...(pointer === undefined ? {} : { pointer }),
    ...(retryable ? { retryable: true } : {}),
    ...details,
  })}\n`;
}

/** What a line says of the problem that its whole stream met. */
function lineOfProblem(problem: Readonly<Record<string, unknown>>): object {
  const { type: _type, title: _title, requestId: _requestId, ...told } = problem;
  return told;
}
