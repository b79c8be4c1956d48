import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import { BUDGET_KINDS, type MemoryBudget } from '../core/budget.js';
import { eventLoop, WORK_KINDS } from '../core/event-loop.js';
import { Distribution, type Series } from './distribution.js';

const PREFIX = 'statefold_';
const FAST = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
/** As far as somebody is to be called: past its last bound a quantile is not known. */
const PRODUCE = [...FAST, 2.5, 10];
const READ_STORE_TABLES = ['events', 'aggregate_states', 'projection_states', 'notifications'];
const REQUEST = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const SLOW = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30];
const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** Figures that are asked for at a scrape rather than told. */
export type Watched =
  | 'active_tenants'
  | 'log_topics_short_of_copies'
  | 'faulted_aggregates'
  | 'faulted_keys'
  | 'code_host_landlock_version'
  | 'runners'
  | 'runners_waiting'
  | 'runners_resident_bytes'
  | 'faulted_artefacts'
  | 'projection_lag_commits'
  | 'read_store_behind_tenants'
  | 'read_store_refused_tenants'
  | 'read_store_rebuild_failing'
  | 'data_directory_free_bytes'
  | 'data_directory_size_bytes'
  | 'last_backup_timestamp_seconds';

const WATCHED: Readonly<Record<Watched, string>> = {
  log_topics_short_of_copies:
    'Topics on Kafka with fewer copies than wanted, or whose appends must reach fewer of them than wanted.',
  active_tenants: 'Tenants whose tasks run in this process.',
  code_host_landlock_version:
    'Version of the landlock that uploaded code is jailed by; 0: it is not jailed, or not run.',
  faulted_aggregates:
    'Aggregates of this process that are faulted: their reducer threw at an event, as far as they were folded.',
  faulted_keys: 'Keys of projections of this process that are faulted: the code threw at an event.',
  projection_lag_commits: 'Accepted commits that the projections of the active tenants have not folded yet.',
  runners: 'Processes that run uploaded code now, each the code of one tenant.',
  runners_waiting: 'Tenants whose code waits for such a process, because there are as many as there may be.',
  runners_resident_bytes: 'Resident memory of these processes together.',
  faulted_artefacts: 'Artefacts whose code is not run any more, of all tenants, until a new upload or a revival.',
  read_store_behind_tenants: 'Active tenants with records that are not in the read store yet.',
  read_store_refused_tenants:
    'Active tenants whose rows the read store refused at the last attempt, while it took those of others.',
  read_store_rebuild_failing: '1 while a rebuild of the read store stands still, and tries again.',
  data_directory_free_bytes: 'Bytes that this process may still write to the file system of its data directory.',
  data_directory_size_bytes: 'Bytes of the file system of the data directory; 0 where it does not say.',
  last_backup_timestamp_seconds:
    'When the last whole backup of the data directory was taken, in seconds since the epoch; absent where there was none.',
};

/** Counters as of now, since the start of the process. */
export interface Totals {
  readonly requests: number;
  /** Requests that were answered 5xx. */
  readonly failures: number;
  readonly appends: number;
  readonly events: number;
  readonly folded: number;
  readonly changes: number;
  /** Accepted requests that append, by how long they took: upper bounds in seconds, and how many are in each bucket; one more is past the last. */
  readonly appendBounds: readonly number[];
  readonly appendCounts: readonly number[];
}

/** Of requests that append: `POST <route> 2xx`. */
const APPENDING = ['/events', '/events/batch', '/events/transaction'].map((route) => `POST ${route} 2xx`);

/**
 * Everything that `/metrics` shows. Modules know none of it: each is handed the observer that bears its name. No label holds an
 * id that a tenant chooses, so the number of series is bounded by the code.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #watched = new Map<Watched, () => number | undefined>();
  readonly #requests = new Map<string, Series>();

  readonly #requestSeconds = this.#distribution(
    'http_request_duration_seconds',
    'Time from a request to its answer, by method, template of the route, and class of the status.',
    REQUEST,
    ['method', 'route', 'status'],
  );
  readonly #forwardSeconds = this.#distribution(
    'http_forward_duration_seconds',
    'Time from a request that another process serves to its answer, by outcome.',
    REQUEST,
    ['outcome'],
  );
  readonly #forwardRetries = this.#labelled(
    'http_forward_retries_total',
    'Attempts to have a request served by another process that failed and may be made again, by reason.',
    ['reason'],
  );
  readonly #appends = this.#count('appends_total', 'Appends that were accepted.');
  readonly #events = this.#count('events_total', 'Events that were accepted.');
  readonly #voided = this.#count(
    'log_void_records_total',
    'Records of a log that count for no reader: of a former owner, or duplicates.',
  );
  readonly #throttledSeconds = this.#count(
    'log_throttled_seconds_total',
    'Time for which quotas of Kafka had connections of this process wait, of all of them together.',
  );
  readonly #groupCommit = this.#distribution(
    'log_produce_records',
    'Records of one produce, by topic: how well appends share a round trip.',
    SIZES,
    ['topic'],
  );
  readonly #produceSeconds = this.#distribution(
    'log_produce_duration_seconds',
    'Time from a produce to its acknowledgement, by topic.',
    PRODUCE,
    ['topic'],
  );
  readonly #foldedEvents = this.#count('fold_events_total', 'Events that reducers folded.');
  readonly #foldSeconds = this.#distribution(
    'fold_duration_seconds',
    'Time of one batch through reducers, the way to the runner and back included.',
    FAST,
  );
  readonly #projectedEvents = this.#count('projection_events_total', 'Events that projections were fed.');
  readonly #projectionChanges = this.#count('projection_changes_total', 'Changes of state that projections made.');
  readonly #swaps = this.#labelled(
    'projection_swaps_total',
    'Revisions of projections that became the live one, by cause: build, redeploy, rollback, rebuild or revive.',
    ['cause'],
  );
  readonly #projectionSeconds = this.#distribution(
    'projection_duration_seconds',
    'Time of one batch through projections.',
    FAST,
  );
  readonly #faults = this.#labelled(
    'faults_total',
    'Events that stopped an aggregate or a key, by kind of code: reducer or projection.',
    ['kind'],
  );
  readonly #releases = this.#labelled(
    'fault_releases_total',
    'Retries and skips that came to an end, by kind of code, mode and outcome.',
    ['kind', 'mode', 'outcome'],
  );
  readonly #snapshotSeconds = this.#distribution(
    'snapshot_duration_seconds',
    'Time of one snapshot of a tenant, by what was done: written to the log, or loaded from it.',
    SLOW,
    ['done'],
  );
  readonly #snapshotBytes = this.#count(
    'snapshot_written_bytes_total',
    'Bytes of the snapshots that were written, before they are compressed.',
  );
  readonly #snapshotFailures = this.#count(
    'snapshot_failures_total',
    'Snapshots whose writing was broken off; it is tried again.',
  );
  readonly #compileSeconds = this.#distribution(
    'compile_duration_seconds',
    'Time of one compilation, by kind and outcome; failed is code that does not compile.',
    SLOW,
    ['kind', 'outcome'],
  );
  readonly #processStarts = this.#labelled(
    'code_host_process_starts_total',
    'Starts of the processes that compile and run uploaded code, by role.',
    ['role'],
  );
  readonly #processEnds = this.#labelled(
    'code_host_process_ends_total',
    'Ends of those processes, wanted or not, by role.',
    ['role'],
  );
  readonly #strikes = this.#count(
    'code_host_strikes_total',
    'Times that uploaded code ended its process, overran its deadline, or took more memory or threads than it may.',
  );
  readonly #exceeded = this.#labelled(
    'code_host_exceeded_total',
    'Processes of uploaded code, or of its compilation, that were killed for the memory or the threads that they took, by role.',
    ['role'],
  );
  readonly #rows = this.#labelled('read_store_rows_total', 'Rows that the read store has taken, by table.', ['table']);
  readonly #rowsRejected = this.#labelled(
    'read_store_rows_rejected_total',
    'Rows that the read store refused in every form and that were left out, by table.',
    ['table'],
  );
  readonly #insertSeconds = this.#distribution(
    'read_store_insert_duration_seconds',
    'Time of one block into the read store, by table.',
    SLOW,
    ['table'],
  );
  readonly #storeAvailable = this.#gauge(
    'read_store_available',
    '1 while the read store takes blocks, else 0. Absent of a process that has not given it any.',
  );
  readonly #streamFailures = this.#labelled(
    'read_store_stream_failures_total',
    'Readings of the log for the read store that failed and are tried again, by stream.',
    ['stream'],
  );
  readonly #webhookSeconds = this.#distribution(
    'webhook_attempt_duration_seconds',
    'Time of one attempt to deliver a webhook, by its outcome.',
    SLOW,
    ['outcome'],
  );
  readonly #webhookParked = this.#count(
    'webhook_parked_total',
    'Webhook messages that became dead letters: given up after the last attempt.',
  );
  readonly #webhookDisabled = this.#count(
    'webhook_disabled_total',
    'Endpoints that were disabled: they answered 410, or had failed for days.',
  );
  #budget: MemoryBudget | undefined;
  readonly #budgetLimits = this.#gauges(
    'budget_limit_bytes',
    'Bytes that may be held in memory of work under way, by budget: process is that of all tenants together, tenant that of each.',
    ['budget'],
  );
  readonly #budgetHeld: Gauge<'kind'> = this.#gauges(
    'budget_held_bytes',
    'Bytes that are held of it for all tenants together, by kind of work.',
    ['kind'],
    () => {
      for (const kind of this.#budget === undefined ? [] : BUDGET_KINDS)
        this.#budgetHeld.set({ kind }, this.#budget?.held(kind) ?? 0);
    },
  );
  readonly #cacheHeld: Gauge<'cache'> = this.#gauges(
    'cache_held_bytes',
    'Bytes that caches hold beside the budget: tails are the last events and changes, rows what the local store wrote last.',
    ['cache'],
    () => {
      for (const [cache, { bytes }] of Object.entries(this.#budget?.caches ?? {}))
        this.#cacheHeld.set({ cache }, bytes);
    },
  );
  readonly #budgetLargest: Gauge = this.#gauge(
    'budget_largest_tenant_bytes',
    'Bytes that are held for the tenant that holds most.',
    () => this.#budgetLargest.set(this.#budget?.largestTenant ?? 0),
  );
  readonly #budgetRefusals: Counter<'kind' | 'budget'> = this.#labelled(
    'budget_refusals_total',
    'Times that work was refused, dropped or held up since a budget was spent, by kind of work and by budget.',
    ['kind', 'budget'],
    () => {
      this.#budgetRefusals.reset();
      for (const kind of this.#budget === undefined ? [] : BUDGET_KINDS)
        for (const budget of ['tenant', 'process'] as const)
          this.#budgetRefusals.inc({ kind, budget }, this.#budget?.refusals(kind, budget) ?? 0);
    },
  );
  readonly #longestHolds: Gauge<'work'> = this.#gauges(
    'event_loop_longest_hold_seconds',
    'The longest time that one slice of work held the event loop in the last one to two minutes, by kind of work.',
    ['work'],
    () => {
      for (const work of WORK_KINDS) this.#longestHolds.set({ work }, eventLoop.longest(work));
    },
  );
  readonly #longHolds: Counter<'work'> = this.#labelled(
    'event_loop_long_holds_total',
    'Slices of work that held the event loop for more than 50 ms, by kind of work.',
    ['work'],
    () => {
      this.#longHolds.reset();
      for (const work of WORK_KINDS) this.#longHolds.inc({ work }, eventLoop.long(work));
    },
  );
  readonly #websockets = this.#gauge('websocket_connections', 'Open WebSocket streams.');
  readonly #tunnels = this.#gauge(
    'websocket_tunnels',
    'WebSockets that are passed on to the processes that serve their tenants.',
  );

  /** What of it is held is read at each scrape. */
  watchBudget(budget: MemoryBudget): void {
    const { processBytes, tenantBytes } = budget.limits;
    this.#budgetLimits.set({ budget: 'process' }, processBytes);
    this.#budgetLimits.set({ budget: 'tenant' }, tenantBytes);
    this.#budget = budget;
  }

  constructor() {
    for (const name of Object.keys(WATCHED) as Watched[]) {
      const gauge: Gauge = this.#gauge(name, WATCHED[name], () => {
        const value = this.figure(name);
        if (value === undefined) gauge.remove();
        else gauge.set(value);
      });
      gauge.remove();
    }
    // A process that has given it nothing doesn't know.
    this.#storeAvailable.remove();
    // A counter that begins with its first row is none that grows.
    for (const table of READ_STORE_TABLES) this.#rowsRejected.inc({ table }, 0);
    collectDefaultMetrics({ register: this.#registry });
  }

  readonly log = {
    throttled: (seconds: number): void => void (this.#throttledSeconds.value += seconds),
  };

  readonly http = {
    answered: (route: string, method: string, status: number, seconds: number): void => {
      const statusClass = `${Math.floor(status / 100)}xx`;
      const key = `${method} ${route} ${statusClass}`;
      let series = this.#requests.get(key);
      if (series === undefined)
        this.#requests.set(key, (series = this.#requestSeconds.series(method, route, statusClass)));
      series.observe(seconds);
    },
    forwarded: (outcome: string, seconds: number): void => this.#forwardSeconds.series(outcome).observe(seconds),
    forwardRetried: (reason: string): void => this.#forwardRetries.inc({ reason }),
    tunnels: (open: number): void => this.#tunnels.set(open),
  };

  readonly tasks = (() => {
    const records = { events: this.#groupCommit.series('events'), changes: this.#groupCommit.series('changes') };
    const durations = {
      events: this.#produceSeconds.series('events'),
      changes: this.#produceSeconds.series('changes'),
    };
    const folds = this.#foldSeconds.series();
    const projections = this.#projectionSeconds.series();
    return {
      appended: (events: number): void => {
        this.#appends.value++;
        this.#events.value += events;
      },
      produced: (topic: 'events' | 'changes', count: number, seconds: number): void => {
        records[topic].observe(count);
        durations[topic].observe(seconds);
      },
      folded: (events: number, seconds: number): void => {
        this.#foldedEvents.value += events;
        folds.observe(seconds);
      },
      projected: (events: number, changes: number, seconds: number): void => {
        this.#projectedEvents.value += events;
        this.#projectionChanges.value += changes;
        projections.observe(seconds);
      },
      voided: (): void => void this.#voided.value++,
      swapped: (cause: string): void => this.#swaps.inc({ cause }),
      faulted: (kind: string): void => this.#faults.inc({ kind }),
      released: (kind: string, mode: string, outcome: string): void => this.#releases.inc({ kind, mode, outcome }),
    };
  })();

  readonly snapshots = {
    wrote: (bytes: number, seconds: number): void => {
      this.#snapshotBytes.value += bytes;
      this.#snapshotSeconds.series('written').observe(seconds);
    },
    failed: (): void => void this.#snapshotFailures.value++,
    loaded: (_entries: number, seconds: number): void => this.#snapshotSeconds.series('loaded').observe(seconds),
  };

  readonly deployments = {
    compiled: (kind: 'reducer' | 'projection', ok: boolean, seconds: number): void =>
      this.#compileSeconds.series(kind, ok ? 'compiled' : 'failed').observe(seconds),
  };

  readonly codeHost = {
    onProcessStart: ({ role }: { readonly role: string }): void => this.#processStarts.inc({ role }),
    onProcessEnd: ({ role }: { readonly role: string }): void => this.#processEnds.inc({ role }),
    onExceeded: ({ role }: { readonly role: string }): void => this.#exceeded.inc({ role }),
    onStrike: (): void => void this.#strikes.value++,
  };

  readonly sink = {
    block: (table: string, rows: number, milliseconds: number): void => {
      this.#rows.inc({ table }, rows);
      this.#insertSeconds.series(table).observe(milliseconds / 1000);
    },
    storeAvailable: (available: boolean): void => this.#storeAvailable.set(available ? 1 : 0),
    streamFailed: (_tenantId: string, stream: string): void => this.#streamFailures.inc({ stream }),
  };

  readonly rowRejected = (table: string): void => this.#rowsRejected.inc({ table });

  readonly webhooks = {
    attempted: ({
      outcome,
      durationMs,
    }: {
      readonly outcome: { readonly kind: string };
      readonly durationMs: number;
    }): void => this.#webhookSeconds.series(outcome.kind).observe(durationMs / 1000),
    buried: (): void => void this.#webhookParked.value++,
    disabled: (): void => void this.#webhookDisabled.value++,
  };

  readonly websockets = (open: number): void => this.#websockets.set(open);

  /** Reads `figure` at each scrape. Without a source, or where that knows none, it has no sample. */
  watch(figure: Watched, read: () => number | undefined): void {
    this.#watched.set(figure, read);
  }

  /** A watched figure as of now; undefined without a source, or where that knows none. */
  figure(name: Watched): number | undefined {
    return this.#watched.get(name)?.();
  }

  /** All watched figures as of now, by the names that `/metrics` has them under, without the prefix. */
  get figures(): Readonly<Partial<Record<Watched, number>>> {
    return Object.fromEntries(
      [...this.#watched].flatMap(([name, read]) => {
        const value = read();
        return value === undefined ? [] : [[name, value]];
      }),
    );
  }

  totals(): Totals {
    let [requests, failures] = [0, 0];
    for (const [key, { counts }] of this.#requests) {
      const all = counts.reduce((sum, count) => sum + count, 0);
      requests += all;
      if (key.endsWith(' 5xx')) failures += all;
    }
    const appendCounts = Array.from({ length: REQUEST.length + 1 }, (_, i) =>
      APPENDING.reduce((sum, key) => sum + (this.#requests.get(key)?.counts[i] ?? 0), 0),
    );
    return {
      requests,
      failures,
      appends: this.#appends.value,
      events: this.#events.value,
      folded: this.#foldedEvents.value,
      changes: this.#projectionChanges.value,
      appendBounds: REQUEST,
      appendCounts,
    };
  }

  /** All of it in Prometheus' text format. */
  async expose(): Promise<{ readonly contentType: string; readonly text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }

  #distribution<L extends string>(
    name: string,
    help: string,
    bounds: readonly number[],
    labels: readonly L[] = [],
  ): Distribution<L> {
    return new Distribution<L>({ name: PREFIX + name, help, bounds, labels }).register(this.#registry);
  }

  /** A counter without labels: the hot path adds to a number, which is read at a scrape. */
  #count(name: string, help: string): { value: number } {
    const count = { value: 0 };
    new Counter({
      name: PREFIX + name,
      help,
      registers: [this.#registry],
      collect(): void {
        this.reset();
        this.inc(count.value);
      },
    });
    return count;
  }

  #labelled<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    collect: () => void = () => undefined,
  ): Counter<L> {
    return new Counter<L>({ name: PREFIX + name, help, labelNames, registers: [this.#registry], collect });
  }

  #gauges<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    collect: () => void = () => undefined,
  ): Gauge<L> {
    return new Gauge<L>({ name: PREFIX + name, help, labelNames, registers: [this.#registry], collect });
  }

  #gauge(name: string, help: string, collect: () => void = () => undefined): Gauge {
    return new Gauge({ name: PREFIX + name, help, registers: [this.#registry], collect });
  }
}
