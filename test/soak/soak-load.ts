import { Pool } from 'undici';
import type { AppendRequest, Outcome, SentEvent } from '../support/history.js';
import type { LoadTenant } from './soak-tenant.js';

export interface SoakLoadOptions {
  readonly urls: readonly string[];
  /** The first one has as many of the appends as all others together. */
  readonly tenants: readonly LoadTenant[];
  readonly lanes: number;
  /** Requests under way at one time, at most. */
  readonly clients: number;
  /** Appends a second, now; 0 is a rest. */
  readonly rate: () => number;
}

const KEYED = 0.5;
const EXPECTING = 0.2;
const BATCHES = 0.1;
const REQUEST_MS = 60_000;
const RETRY_MS = 50;

/** Appends at a rate that the service does not set: what finds no free client is due later, and told. */
export class SoakLoad {
  readonly #options: SoakLoadOptions;
  readonly #pools: readonly Pool[];
  readonly #under = new Set<Promise<void>>();
  /** Answers by status; `lost` where the connection broke. */
  readonly answers = new Map<string, number>();
  /** What was sent without an answer, and why there was none. */
  readonly losses: string[] = [];
  /** Milliseconds, of all that were accepted since the last `takeLatencies`. */
  #latencies: number[] = [];
  #turn = 0;
  #events = 0;
  #commands = 0;
  #stopping = false;
  /** Appends that are due and were not sent yet. */
  #due = 0;
  /** Most that was due and could not be sent for want of a client. */
  overdue = 0;

  constructor(options: SoakLoadOptions) {
    this.#options = options;
    // A connection that is idle is given up long before the service closes it: what is sent in that moment is lost.
    const idle = { keepAliveTimeout: 1000, keepAliveMaxTimeout: 1000 };
    this.#pools = options.urls.map((url) => new Pool(url, { connections: options.clients, pipelining: 1, ...idle }));
  }

  /** Commands that were begun. */
  get appends(): number {
    return this.#commands;
  }

  /** All that was sent is answered. */
  get isIdle(): boolean {
    return this.#under.size === 0;
  }

  takeLatencies(): readonly number[] {
    return this.#latencies.splice(0);
  }

  /** One event of each aggregate, as fast as they are taken; of no lane, so that what they leave is aggregates and not changes. */
  async seed(told: (done: number) => void): Promise<void> {
    const { tenants, clients } = this.#options;
    let [tenant, aggregate, done] = [0, 0, 0];
    const next = (): readonly [LoadTenant, number] | undefined => {
      while (tenant < tenants.length && aggregate >= (tenants[tenant]?.aggregates ?? 0))
        [tenant, aggregate] = [tenant + 1, 0];
      const of = tenants[tenant];
      return of && [of, aggregate++];
    };
    await Promise.all(
      Array.from({ length: clients }, async () => {
        for (let one = next(); one !== undefined; one = next()) {
          const [of, number] = one;
          await this.#until201(of, this.#request(of.aggregateId(number), 1, true, ''));
          told(++done);
        }
      }),
    );
  }

  /** Until `stop`. */
  async run(): Promise<void> {
    let last = performance.now();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      // Asked behind the pause: whoever stops waits for what is under way by then, and closes the connections.
      if (this.#stopping) return;
      const now = performance.now();
      const rate = this.#options.rate();
      // What could not be sent in time is not sent into a rest.
      this.#due = rate === 0 ? 0 : this.#due + (rate * (now - last)) / 1000;
      last = now;
      while (this.#due >= 1 && this.#under.size < this.#options.clients) {
        this.#due--;
        this.#begin();
      }
      this.overdue = Math.max(this.overdue, Math.floor(this.#due));
    }
  }

  /** Resolves when all that was sent has its answer. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#under);
    await Promise.all(this.#pools.map((pool) => pool.close()));
  }

  #begin(): void {
    const sent = this.#one().finally(() => this.#under.delete(sent));
    this.#under.add(sent);
  }

  async #one(): Promise<void> {
    const { tenants } = this.#options;
    const tenant = tenants[Math.random() < 0.5 ? 0 : Math.floor(Math.random() * tenants.length)];
    if (tenant === undefined) return;
    const aggregateId = tenant.aggregateId(Math.floor(Math.random() * tenant.aggregates));
    const events = Math.random() < BATCHES ? 2 + Math.floor(Math.random() * 6) : 1;
    const request = this.#request(aggregateId, events, Math.random() < KEYED);
    if (request.key !== undefined) return this.#until201(tenant, request);
    const version = tenant.seen.get(aggregateId);
    await this.#send(
      tenant,
      version !== undefined && Math.random() < EXPECTING ? { ...request, expectedVersion: version } : request,
    );
  }

  #request(aggregateId: string, count: number, keyed: boolean, ofLane?: string): AppendRequest {
    const command = this.#commands++;
    const events: SentEvent[] = Array.from({ length: count }, () => ({
      mark: `e${this.#events++}`,
      lane: ofLane ?? `lane-${Math.floor(Math.random() * this.#options.lanes)}`,
      eventType: 'Added',
    }));
    return { kind: 'append', command, aggregateId, batch: count > 1, events, ...(keyed && { key: `key-${command}` }) };
  }

  /** Asked again for as long as it is refused for now: the key keeps it one. */
  async #until201(tenant: LoadTenant, request: AppendRequest): Promise<void> {
    for (;;) {
      const outcome = await this.#send(tenant, request);
      if (outcome.kind === 'answered' && outcome.status !== 503 && outcome.status !== 429) return;
      if (this.#stopping && outcome.kind === 'lost') return;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  async #send(tenant: LoadTenant, request: AppendRequest): Promise<Outcome> {
    const { aggregateId, events, expectedVersion, key, batch } = request;
    const wire = events.map(({ mark, lane, eventType }) => ({ eventType, data: { id: mark, lane } }));
    const body = JSON.stringify({
      aggregateId,
      ...(batch ? { events: wire } : wire[0]),
      ...(expectedVersion !== undefined && { expectedVersion }),
    });
    const started = performance.now();
    const outcome = await tenant.history.record(request, async () => {
      const pool = this.#pools[this.#turn++ % this.#pools.length] as Pool;
      const answer = await pool.request({
        method: 'POST',
        path: batch ? '/events/batch' : '/events',
        headers: {
          'x-api-key': tenant.key,
          'content-type': 'application/json',
          ...(key !== undefined && { 'idempotency-key': key }),
        },
        body,
        headersTimeout: REQUEST_MS,
        bodyTimeout: REQUEST_MS,
      });
      const { version, startVersion, endVersion, eventId, eventIds, code, retryable, currentVersion } =
        (await answer.body.json()) as Record<string, unknown>;
      // What the checker asks for, and no more: there are many.
      const kept = { version, startVersion, endVersion, eventId, eventIds, code, retryable, currentVersion };
      return {
        status: answer.statusCode,
        body: Object.fromEntries(Object.entries(kept).filter(([, of]) => of !== undefined)),
      };
    });
    if (outcome.kind === 'lost')
      this.losses.push(
        `${events.length} event(s) of ${aggregateId} of ${tenant.tenantId}, ${key ?? 'no key'}, after ${Math.round(performance.now() - started)} ms: ${outcome.why}`,
      );
    const name = outcome.kind === 'lost' ? 'lost' : String(outcome.status);
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
    if (outcome.kind === 'answered' && outcome.status === 201) {
      this.#latencies.push(performance.now() - started);
      const { version, endVersion } = outcome.body as { version?: number; endVersion?: number };
      tenant.seen.set(aggregateId, Math.max(tenant.seen.get(aggregateId) ?? 0, endVersion ?? version ?? 0));
    }
    return outcome;
  }
}
