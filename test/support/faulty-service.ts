// The real service, with a fuse: it kills its own process at a named place. `FUSE=<point>:<n>` says where and at which time, or
// FUSE_FILE names a file that says so by then; counting begins with SIGUSR2. All else is as in `src/main.ts serve`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CodeHost, Runner } from '../../src/code-host/code-host.js';
import { findProjectRoot } from '../../src/config/project-root.js';
import { readSettings } from '../../src/config/settings.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import type { Log, NewRecord } from '../../src/log/log.js';
import type { ReadStore } from '../../src/read-store/read-store.js';
import type { SecondTables } from '../../src/read-store/second-tables.js';
import { startService } from '../../src/app/service.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { Metrics } from '../../src/telemetry/metrics.js';

/** Where the process can be made to die, by the port that it dies in. */
export type CrashPoint =
  | 'before-log-write' // a commit is about to be written
  | 'after-log-write' // it is on disk, and nobody was told
  | 'after-ack' // the writer was told, its answers are out
  | 'before-changes-write'
  | 'after-changes-write'
  | 'between-parts' // some changes of an input are on disk, and nobody was told
  | 'told-between-parts' // they are told, and in the local store
  | 'between-log-and-store' // both logs are written and folded, the local store is behind
  | 'before-read-store-insert'
  | 'after-read-store-insert' // rows are in, the watermark isn't
  | 'in-read-store-copy' // of a rebuild: what others have is in the second set, which is not yet marked so
  | 'in-read-store-exchange' // of a rebuild: some tables are the new ones
  | 'before-read-store-drop' // of a rebuild: the former tables are of no use
  | 'before-read-store-cancel' // of a rebuild: nobody wants it, and what it has filled is there
  | 'after-read-store-cancel' // that is gone, and nobody was told
  | 'in-catch-up' // a turn of a reducer's catch-up is folded, not stored
  | 'in-build' // likewise of a projection's build
  | 'in-release' // a part of what a retry or a skip folds is folded, and not written
  | 'after-release-write' // some of the states that it made are on disk, and nobody was told
  | 'in-swap'; // some of the states that went live are notified, not all

/** Turns of the event loop that answers take to reach the socket. */
const TURNS = 3;
/** A fold of so many events is a catch-up's: clients have fewer requests under way. */
const CATCH_UP_EVENTS = 64;

class Fuse {
  readonly #text: () => string;
  #point: string | undefined;
  #left = 0;

  constructor(text: () => string) {
    this.#text = text;
  }

  light(): void {
    const [point, n] = this.#text().split(':');
    this.#point = point;
    this.#left = Number(n ?? 1);
  }

  /** Dies when the point has been reached often enough; `isThere` is asked where the fuse is of that point, since it may take long. */
  at(point: CrashPoint, isThere?: () => boolean): void {
    if (this.#reached(point, isThere)) die();
  }

  /** The same, when what follows on this turn is done. */
  soonAt(point: CrashPoint, isThere?: () => boolean): void {
    if (!this.#reached(point, isThere)) return;
    const wait = (turns: number): unknown => setImmediate(() => (turns === 0 ? die() : wait(turns - 1)));
    wait(TURNS);
  }

  #reached(point: CrashPoint, isThere = () => true): boolean {
    return point === this.#point && isThere() && --this.#left === 0;
  }
}

/** Nothing of this process runs on: the signal is there before the call returns. */
function die(): never {
  process.kill(process.pid, 'SIGKILL');
  for (;;);
}

function faultyLog(log: Log, fuse: Fuse): Log {
  const { changes } = loadCodecs(join(findProjectRoot(), 'schemas', 'avro'));
  const isOf = (records: readonly NewRecord[], ...causes: string[]): boolean =>
    records.some(({ value }) => {
      const body = value === null ? undefined : changes.decode(value)?.body;
      return body?.kind === 'Change' && causes.includes(body.value.cause ?? '');
    });
  const isPart = (records: readonly NewRecord[]): boolean => {
    const value = records.at(-1)?.value;
    const body = value === null || value === undefined ? undefined : changes.decode(value)?.body;
    return body?.kind === 'Change' && body.value.last === false;
  };
  return {
    maxAppendBytes: log.maxAppendBytes,
    ensureTopics: (specs) => log.ensureTopics(specs),
    deleteTopic: (topic) => log.deleteTopic(topic),
    append: async (to, records) => {
      const events = to.topic.endsWith('.events');
      const pushed = to.topic.endsWith('.changes');
      if (events) fuse.at('before-log-write');
      if (pushed) fuse.at('before-changes-write');
      const result = await log.append(to, records);
      if (events) {
        fuse.at('after-log-write');
        fuse.soonAt('after-ack');
      }
      if (pushed) {
        fuse.at('after-changes-write');
        fuse.at('between-parts', () => isPart(records));
        fuse.soonAt('told-between-parts', () => isPart(records));
        fuse.soonAt('in-swap', () => isOf(records, 'build', 'rollback', 'rebuild'));
        fuse.at('after-release-write', () => isOf(records, 'retry', 'skip'));
        fuse.soonAt('between-log-and-store');
      }
      return result;
    },
    endOffset: (of) => log.endOffset(of),
    startOffset: (of) => log.startOffset(of),
    read: (of, from, maxBytes, waitMs) => log.read(of, from, maxBytes, waitMs),
    doubt: (of) => log.doubt(of),
    reportPositions: (positions) => log.reportPositions(positions),
    readAt: (of, offsets) => log.readAt(of, offsets),
    close: () => log.close(),
  };
}

function faultyRunner(runner: Runner, fuse: Fuse): Runner {
  return {
    load: (artefactId, assembly) => runner.load(artefactId, assembly),
    has: (artefactId) => runner.has(artefactId),
    unload: (artefactId) => runner.unload(artefactId),
    forget: (unitId) => runner.forget(unitId),
    fold: async (items) => {
      const outcomes = await runner.fold(items);
      if (items.reduce((sum, { events }) => sum + events.length, 0) >= CATCH_UP_EVENTS) fuse.at('in-catch-up');
      return outcomes;
    },
    project: async (request) => {
      const changes = await runner.project(request);
      if (request.reply === 'last') fuse.at('in-build');
      if (request.units.some(({ id }) => id.endsWith('@release'))) fuse.at('in-release');
      return changes;
    },
  };
}

const faultyCodeHost = (host: CodeHost, fuse: Fuse): CodeHost => ({
  compile: (request) => host.compile(request),
  runner: (tenantId) => faultyRunner(host.runner(tenantId), fuse),
  dispose: (tenantId) => host.dispose(tenantId),
  close: () => host.close(),
});

const faultyReadStore = (store: ReadStore, fuse: Fuse): ReadStore => ({
  ensureSchema: () => store.ensureSchema(),
  insert: async (block) => {
    fuse.at('before-read-store-insert');
    await store.insert(block);
  },
  watermarks: (tenantId, incarnation) => store.watermarks(tenantId, incarnation),
  tenants: () => store.tenants(),
  setWatermarks: async (watermarks) => {
    fuse.at('after-read-store-insert');
    await store.setWatermarks(watermarks);
  },
  query: (sql, format) => store.query(sql, format),
  dropProjection: (tenantId, projectionId) => store.dropProjection(tenantId, projectionId),
  eraseAggregates: (tenantId, aggregateIds) => store.eraseAggregates(tenantId, aggregateIds),
  reset: (tenantId) => store.reset(tenantId),
  ping: () => store.ping(),
  close: () => store.close(),
});

const faultySecondTables = (tables: SecondTables, fuse: Fuse, last = { done: '' }): SecondTables => ({
  find: () => tables.find(),
  make: (record) => tables.make(record),
  mark: async (record) => {
    await tables.mark(record);
    last.done = record.phase;
  },
  copy: async (whose, signal) => {
    await tables.copy(whose, signal);
    fuse.at('in-read-store-copy');
  },
  lagging: () => tables.lagging(),
  close: () => tables.close(),
  exchange: async () => {
    const isOne = await tables.exchange();
    if (isOne) fuse.at('in-read-store-exchange');
    if (!isOne) last.done = 'exchange';
    return isOne;
  },
  drop: async () => {
    // At a start there is nothing to drop, or what another process left.
    if (last.done === 'exchange') fuse.at('before-read-store-drop');
    if (last.done === 'filling') fuse.at('before-read-store-cancel');
    await tables.drop();
    if (last.done === 'filling') fuse.at('after-read-store-cancel');
  },
});

async function serve(): Promise<void> {
  const settings = readSettings(process.env);
  const { FUSE = '', FUSE_FILE: file } = process.env;
  const fuse = new Fuse(() => (file === undefined ? FUSE : readFileSync(file, 'utf8')));
  process.on('SIGUSR2', () => fuse.light());
  const service = await startService({
    settings,
    logger: createLogger({ level: settings.logLevel }),
    metrics: new Metrics(),
    decorate: {
      log: (log) => faultyLog(log, fuse),
      codeHost: (host) => faultyCodeHost(host, fuse),
      readStore: (store) => faultyReadStore(store, fuse),
      secondTables: (tables) => faultySecondTables(tables, fuse),
    },
  });
  process.on('SIGTERM', () => void service.close().then(() => process.exit()));
  process.stdout.write(`Statefold listens on ${service.url}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await serve();
