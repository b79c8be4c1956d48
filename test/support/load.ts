import { CLEARED } from './checker-model.js';
import { exchange } from './exchange.js';
import type { AppendRequest, History, Outcome, SentEvent } from './history.js';
import type { Served } from './load-world.js';
import { API_KEY } from './service.js';

/** A small generator of repeatable choices (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export interface LoadOptions {
  readonly seed: number;
  /** Aggregates of the types `ledger` and `plain` each. */
  readonly aggregates?: number;
  readonly lanes?: number;
  /** How long a client rests between requests, at most. */
  readonly restMs?: number;
}

const RACERS = 4;
const REQUEST_MS = 20_000;
const JSON_BODY = { 'content-type': 'application/json' };

/**
 * Clients that append, race, repeat and read until they are stopped, whatever becomes of the service: a request that is lost
 * ends as lost in the history, and its client goes on with the next service. Keyed commands are sent until they are answered.
 */
export class Load {
  readonly #world: Served;
  readonly #history: History;
  readonly #options: Required<LoadOptions>;
  readonly #random: () => number;
  #clients: Promise<void>[] = [];
  #stopping = false;
  #commands = 0;
  #marks = 0;

  constructor(world: Served, history: History, options: LoadOptions) {
    this.#world = world;
    this.#history = history;
    this.#options = { aggregates: 6, lanes: 8, restMs: 20, ...options };
    this.#random = seeded(options.seed);
  }

  start(): void {
    this.#stopping = false;
    const prefix = this.#commands; // races of an earlier start stay as they ended
    this.#clients = [
      ...Array.from({ length: 8 }, () => this.#loop(() => this.#append())),
      ...Array.from({ length: 2 }, () => this.#loop(() => this.#keyed())),
      this.#races(`race-${prefix}`),
      this.#loop(() => this.#read()),
    ];
  }

  /** Resolves when every client has had its last answer. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#clients);
  }

  /** Appends so many commits of two events each to aggregates of one type: a history for catch-ups and builds. */
  async fill(aggregateType: string, commits: number, lanes: number): Promise<void> {
    let next = 0;
    const client = async (): Promise<void> => {
      for (let i = next++; i < commits; i = next++) {
        const events = [0, 1].map((j) => ({ ...this.#event(), lane: `lane-${(2 * i + j) % lanes}` }));
        const outcome = await this.#send({ ...this.#command(`${aggregateType}-${i % 20}`, events), batch: true });
        if (outcome.kind !== 'answered' || outcome.status !== 201)
          throw new Error(`the history could not be written: ${JSON.stringify(outcome)}`);
      }
    };
    await Promise.all(Array.from({ length: 8 }, client));
  }

  async #loop(step: () => Promise<void>): Promise<void> {
    while (!this.#stopping && !this.#world.ended) {
      await step();
      await new Promise((resolve) => setTimeout(resolve, this.#random() * this.#options.restMs));
    }
  }

  #any(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #aggregate(): string {
    return `${this.#random() < 0.6 ? 'ledger' : 'plain'}-${this.#any(this.#options.aggregates)}`;
  }

  #event(): SentEvent {
    return {
      mark: `e${this.#marks++}`,
      lane: `lane-${this.#any(this.#options.lanes)}`,
      eventType: this.#random() < 0.02 ? CLEARED : 'Added',
    };
  }

  #command(aggregateId: string, events: readonly SentEvent[]): AppendRequest {
    return { kind: 'append', command: this.#commands++, aggregateId, batch: false, events };
  }

  async #append(): Promise<void> {
    const aggregateId = this.#aggregate();
    const batch = this.#random() < 0.2;
    const request = {
      ...this.#command(
        aggregateId,
        Array.from({ length: batch ? 2 + this.#any(6) : 1 }, () => this.#event()),
      ),
      batch,
    };
    // Some expect the version that was last seen, which others may have passed.
    const version = this.#seen.get(aggregateId);
    await this.#send(
      this.#random() < 0.2 && version !== undefined ? { ...request, expectedVersion: version } : request,
    );
  }

  readonly #seen = new Map<string, number>();

  async #keyed(): Promise<void> {
    const events = Array.from({ length: 1 + this.#any(3) }, () => this.#event());
    const request = {
      ...this.#command(this.#aggregate(), events),
      batch: events.length > 1,
      key: `key-${this.#commands}`,
    };
    for (;;) {
      const outcome = await this.#send(request);
      if (outcome.kind === 'answered' && outcome.status !== 503) break;
      if (this.#world.ended) return;
    }
    if (this.#random() < 0.3) await this.#send(request);
    if (this.#random() < 0.1)
      await this.#send({ ...this.#command(request.aggregateId, [this.#event()]), key: request.key });
  }

  /** Rounds in which several expect the same version of an aggregate that is theirs alone. */
  async #races(aggregateId: string): Promise<void> {
    let version: number | undefined = 0;
    await this.#loop(async () => {
      if (version === undefined) {
        const outcome = await this.#list(aggregateId);
        const events =
          outcome.kind === 'answered' ? (outcome.body['events'] as readonly unknown[] | undefined) : undefined;
        if (events === undefined && (outcome.kind === 'lost' || outcome.status !== 404)) return;
        version = events?.length ?? 0;
      }
      const expectedVersion = version;
      const outcomes = await Promise.all(
        Array.from({ length: RACERS }, () =>
          this.#send({ ...this.#command(aggregateId, [this.#event()]), expectedVersion }),
        ),
      );
      // Known again when someone won, else it has to be read.
      version = outcomes.some((outcome) => outcome.kind === 'answered' && outcome.status === 201)
        ? expectedVersion + 1
        : undefined;
    });
  }

  async #read(): Promise<void> {
    const aggregateId = this.#aggregate();
    if (this.#random() < 0.5) {
      await this.#list(aggregateId);
      return;
    }
    const [aggregateType = ''] = aggregateId.split('-');
    await this.#record(
      { kind: 'state', aggregateType, aggregateId },
      'GET',
      `/aggregate-types/${aggregateType}/${aggregateId}/state`,
    );
  }

  #list(aggregateId: string): Promise<Outcome> {
    return this.#record({ kind: 'list', aggregateId }, 'GET', `/events/${aggregateId}?limit=10000`);
  }

  async #send(request: AppendRequest): Promise<Outcome> {
    const { aggregateId, events, expectedVersion, key, batch } = request;
    const wire = events.map(({ mark, lane, eventType }) => ({ eventType, data: { id: mark, lane } }));
    const body = {
      aggregateId,
      ...(batch ? { events: wire } : wire[0]),
      ...(expectedVersion === undefined ? {} : { expectedVersion }),
    };
    const outcome = await this.#record(
      request,
      'POST',
      batch ? '/events/batch' : '/events',
      JSON.stringify(body),
      key === undefined ? {} : { 'idempotency-key': key },
    );
    if (outcome.kind === 'answered' && outcome.status === 201) {
      const { version, endVersion } = outcome.body as { version?: number; endVersion?: number };
      this.#seen.set(aggregateId, Math.max(this.#seen.get(aggregateId) ?? 0, endVersion ?? version ?? 0));
    }
    return outcome;
  }

  async #record(
    request: Parameters<History['record']>[0],
    method: string,
    path: string,
    body?: string,
    headers: Record<string, string> = {},
  ): Promise<Outcome> {
    const { url } = await this.#world.up();
    const outcome = await this.#history.record(request, async () => {
      const sent = { 'x-api-key': API_KEY, ...(body === undefined ? {} : JSON_BODY), ...headers };
      const answer = await exchange(method, url + path, sent, body, AbortSignal.timeout(REQUEST_MS));
      return { status: answer.status, body: JSON.parse(answer.text) as Record<string, unknown> };
    });
    // What is refused for now is not asked for again at once; and the end of a service shows here before the test has seen it.
    if (outcome.kind === 'lost' || outcome.status === 503) await new Promise((resolve) => setTimeout(resolve, 20));
    return outcome;
  }
}
