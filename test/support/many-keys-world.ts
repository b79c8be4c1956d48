// A tenant with one projection of many keys, whose code runs in this process: what is measured is the service's own work.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { taskOptions } from '../../src/app/open-tasks.js';
import type { CodeHost, ProjectChange, ProjectRequest, Runner } from '../../src/code-host/code-host.js';
import { ForgottenCodeError } from '../../src/code-host/tenant-code.js';
import type { Change } from '../../src/core/change.js';
import { uuidv7 } from '../../src/core/ids.js';
import { silentLogger } from '../../src/core/logger.js';
import { SLICE } from '../../src/jobs/sliced-job.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { Log } from '../../src/log/log.js';
import { changesTopic } from '../../src/log/topics.js';
import type { BuildTarget } from '../../src/projections/projection-builds.js';
import { LocalStore } from '../../src/store/local-store.js';
import type { StoreSection } from '../../src/store/store-section.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { bindAll, codecs, testGround } from './ground.js';
import { temporaryDirectory, until } from './service.js';

export const TENANT = 'many';
const HOUR_MS = 3_600_000;
const EVENTS_PER_APPEND = 1000;
const LONG_MS = 1_800_000;
export const PROJECTION = 'p';

/** The code of artefact `x<n>`: how often a key came, times n. */
function project({ units, events, stateOf, reply }: ProjectRequest): ProjectChange[] {
  const changes: ProjectChange[] = [];
  const last = new Map<string, ProjectChange>();
  events.forEach((event, e) => {
    const key = JSON.parse(event.data.toString()) as string;
    units.forEach(({ artefactId }, unit) => {
      const name = `${unit} ${key}`;
      const stored = stateOf(unit, key);
      if (stored.faulted) return void changes.push({ event: e, unit, key, outcome: 'parked', state: null });
      const before = last.get(name)?.state ?? stored.state;
      const total = before === null ? 0 : (JSON.parse(before.toString()) as { total: number }).total;
      const state = Buffer.from(JSON.stringify({ total: total + Number(artefactId.slice(1)), of: key }));
      const change: ProjectChange = { event: e, unit, key, outcome: 'changed', state };
      last.set(name, change);
      changes.push(change);
    });
  });
  return reply === 'each' ? changes : [...last.values()];
}

/** What the code of artefact `x<n>` makes of a key that came so often. */
export const stateOf = (code: number, key: string, times = 1): string =>
  JSON.stringify({ total: code * times, of: key });

/** The code in a process of its own; what it is asked for waits for `untilRun`. */
function codeHostOf(untilRun: () => Promise<void>): CodeHost {
  const loaded = new Set<string>();
  const runner: Runner = {
    load: (artefactId) => void loaded.add(artefactId),
    has: (artefactId) => loaded.has(artefactId),
    unload: (artefactId) => void loaded.delete(artefactId),
    fold: () => Promise.reject(new Error('there are no reducers')),
    project: async (request) => {
      await untilRun();
      // Whoever folds in a process of its own leaves this one's event loop free meanwhile.
      return new Promise((resolve) => setImmediate(() => resolve(project(request))));
    },
    forget: () => undefined,
  };
  return {
    compile: () => Promise.reject(new Error('nothing is compiled here')),
    runner: () => runner,
    dispose: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

export const keyOf = (i: number): string => `key-${String(i).padStart(8, '0')}`;

export interface ManyKeysOptions {
  /** Of an earlier world, whose process is gone. */
  readonly directory?: string;
  readonly rowsPerSlice?: number;
  /** The store is written when it has so many changed entries. */
  readonly flushEntries?: number;
  /** In place of one in the directory. */
  readonly log?: Log;
}

/** The log of one machine, and processes that serve the tenant from it one after the other, or beside each other. */
export class ManyKeysWorld {
  readonly directory: string;
  readonly log: Log;
  readonly #own: LmdbLog | undefined;
  readonly changes = { topic: changesTopic(TENANT), partition: 0 };
  readonly #t: Pick<TestContext, 'after'>;
  readonly #options: ManyKeysOptions;
  #target: BuildTarget | undefined;
  #appended = 0;
  readonly #forgotten = new Set<string>();
  /** What the code is asked for waits for it. */
  gate: Promise<void> = Promise.resolve();
  /** How often it was. */
  asked = 0;
  /** What the log takes for the time. */
  now: () => number = () => Date.now();

  constructor(t: Pick<TestContext, 'after'>, options: ManyKeysOptions = {}) {
    this.#t = t;
    this.#options = options;
    this.directory = options.directory ?? temporaryDirectory(t);
    this.#own =
      options.log === undefined ? new LmdbLog({ path: join(this.directory, 'log'), now: () => this.now() }) : undefined;
    this.log = options.log ?? (this.#own as LmdbLog);
    if (this.#own !== undefined) t.after(() => this.log.close());
  }

  /** A process of its own store, which goes by its name. */
  async open(name: string, { standby = false, log = this.log } = {}): Promise<Seat> {
    const { rowsPerSlice: rows, flushEntries } = this.#options;
    const store = new LocalStore({
      path: join(this.directory, name),
      logger: silentLogger,
      ...(flushEntries !== undefined && { flushEntries }),
    });
    const section = store.section(TENANT);
    const ground = testGround({
      directory: this.directory,
      env: { IDEMPOTENCY_WINDOW: '100', CHANGES_RETENTION_MS: String(HOUR_MS), FOLD_DEADLINE_MS: '5000' },
    });
    const storage = { log, codecs, store: { section: () => section } };
    const codeHost = codeHostOf(() => {
      this.asked++;
      return this.gate;
    });
    const task = new TenantTask({
      ...taskOptions(ground, storage, codeHost, TENANT, {
        bindAll: bindAll(),
        projections: () => (this.#target === undefined ? [] : [this.#target]),
        projectionExists: () => this.#target !== undefined,
        assembly: (artefactId) =>
          this.#forgotten.has(artefactId)
            ? Promise.reject(new ForgottenCodeError(artefactId))
            : Promise.resolve(Buffer.alloc(0)),
      }),
      ...(rows !== undefined && { slice: { ...SLICE, rows } }),
      onStopped: (error) => assert.fail(error),
    });
    const seat = new Seat(store, section, task);
    this.#t.after(() => seat.close());
    await task.open({ standby });
    return seat;
  }

  /** One event of each of so many keys. */
  async append({ task }: Seat, keys: number): Promise<void> {
    await this.send(task, keys, () => until(() => task.projectionLag < 20, LONG_MS));
    await until(() => task.projectionLag === 0, LONG_MS);
  }

  /** The same, and nobody waits until they are projected. */
  async send(task: TenantTask, keys: number, between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    for (let at = 0; at < keys; at += EVENTS_PER_APPEND) {
      await task.first.append({
        commandId: uuidv7(),
        keyed: false,
        requestHash: Buffer.alloc(0),
        aggregateId: `a-${this.#appended++}`,
        aggregateType: undefined,
        expectedVersion: 'any',
        correlationId: undefined,
        causationId: undefined,
        metadata: undefined,
        events: Array.from({ length: Math.min(EVENTS_PER_APPEND, keys - at) }, (_, i) => ({
          eventType: 'Came',
          data: Buffer.from(JSON.stringify(keyOf(at + i))),
        })),
      });
      await between();
    }
  }

  /** The revision is the newest one, in the catalog. */
  deployed(revision: number, code: number, cause?: BuildTarget['cause']): BuildTarget {
    return (this.#target = {
      projectionId: PROJECTION,
      revision,
      artefactId: `x${code}`,
      classNames: ['C'],
      ...(cause !== undefined && { cause }),
    });
  }

  deploy({ task }: Seat, revision: number, code: number, cause?: BuildTarget['cause']): void {
    task.deploy(this.deployed(revision, code, cause));
  }

  drop({ task }: Seat): void {
    this.#target = undefined;
    task.drop(PROJECTION);
  }

  /** The code is not in the log any more. */
  forget(code: number): void {
    this.#forgotten.add(`x${code}`);
  }

  /** All that was told so far is past its days. */
  async expire(): Promise<void> {
    this.now = () => Date.now() + 2 * HOUR_MS;
    await this.clean();
  }

  /** What is past its days goes. */
  async clean(): Promise<void> {
    if (this.#own === undefined) throw new Error('a log that was given keeps its own time');
    await this.#own.clean();
  }
}

/** A process that serves the tenant, or stands by. */
export class Seat {
  readonly store: LocalStore;
  readonly section: StoreSection;
  readonly task: TenantTask;
  #closed = false;

  constructor(store: LocalStore, section: StoreSection, task: TenantTask) {
    this.store = store;
    this.section = section;
    this.task = task;
  }

  untilLive(revision: number): Promise<void> {
    return until(() => this.task.projections.life(PROJECTION).live?.revision === revision, LONG_MS);
  }

  /** Nothing is left to be removed. */
  untilSwept(): Promise<void> {
    return until(() => this.section.keys('d', 'e', 1).length === 0, LONG_MS);
  }

  /** How many rows there are in the table of the letter. */
  rows(table: string): number {
    return this.section.keys(table, String.fromCharCode(table.charCodeAt(0) + 1), Number.MAX_SAFE_INTEGER).length;
  }

  /** The states of all keys, as a reader gets them. */
  async states(): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>();
    for (let cursor: string | undefined; ;) {
      const page = await this.task.projections.states({ projectionId: PROJECTION, prefix: '', limit: 1000, cursor });
      for (const { key, state } of page.states) found.set(key, state?.toString() ?? '');
      if (page.nextCursor === undefined) return found;
      cursor = page.nextCursor;
    }
  }

  /** All that was told and is kept, by sequence. */
  async told(): Promise<Change[]> {
    const all: Change[] = [];
    const feed = this.task.changes.of(PROJECTION);
    for (let from = await feed.start(); ;) {
      const { items } = await feed.read(from, { items: 1000 });
      if (items.length === 0) return all;
      all.push(...items);
      from = (items.at(-1)?.sequence ?? 0) + 1;
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.task.close();
    await this.store.close();
  }
}

/** What is done to a projection that is live at revision 1, one after the other; `then` comes between the rollback and the trim. */
export async function wholeLife(
  world: ManyKeysWorld,
  seat: Seat,
  measured: (name: string, work: () => Promise<void>) => Promise<void>,
  then: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  await measured('a swap of equal states', async () => {
    world.deploy(seat, 2, 1, 'rebuild');
    await seat.untilLive(2);
  });
  await measured('the removal of what it replaced', () => seat.untilSwept());
  await measured('a swap that changes each state', async () => {
    world.deploy(seat, 3, 2);
    await seat.untilLive(3);
  });
  await measured('a rollback', async () => {
    world.deploy(seat, 4, 1, 'rollback');
    await seat.untilLive(4);
  });
  await then();
  await measured('a trim', async () => {
    await world.expire();
    await seat.task.changes.of(PROJECTION).start();
    await seat.untilSwept();
  });
  await measured('a drop', async () => {
    world.drop(seat);
    while (seat.task.projections.life(PROJECTION).live !== undefined) await new Promise(setImmediate);
    await seat.untilSwept();
  });
}
