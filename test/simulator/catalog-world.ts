import { FencedCatalog, CATALOG_TOPIC } from '../../src/catalog/fenced-catalog.js';
import { EntityStore } from '../../src/catalog/entity-store.js';
import type { ArtefactStore, TenantEntity } from '../../src/catalog/catalog.js';
import { InvariantError, StatefoldError } from '../../src/core/errors.js';
import { EMPTY_FENCE, foldRecord, type FenceState } from '../../src/core/fence.js';
import { silentLogger } from '../../src/core/logger.js';
import type { CatalogBody } from '../../src/core/records.js';
import { Random, Scheduler, type Action, type SimProcess } from './scheduler.js';
import { NO_FAULTS, SimLog, type LogFaults } from './sim-log.js';
import { codecs } from './world.js';

export interface CatalogPlan {
  readonly seed: number;
  readonly processes: number;
  /** Writes of each process. */
  readonly writes: number;
  readonly entities: number;
  readonly faults: LogFaults;
  readonly crashes: number;
  readonly pauses: number;
  readonly sweepAfter: number;
}

export function catalogPlanOf(seed: number): CatalogPlan {
  const random = new Random(seed ^ 0xca7a);
  const some = (chance: number, value: number): number => (random.chance(chance) ? value : 0);
  const plan = {
    seed,
    processes: 1 + random.below(3),
    writes: 3 + random.below(8),
    entities: 1 + random.below(3),
    faults: {
      lost: some(0.6, 12),
      dropped: some(0.5, 8),
      refused: some(0.3, 8),
      unreadable: some(0.4, 3),
    },
    crashes: some(0.5, 1 + random.below(3)),
    pauses: some(0.5, 1 + random.below(4)),
    sweepAfter: random.pick([1, 3, 256]),
  };
  return { ...plan, faults: { ...plan.faults, lagging: some(0.4, 15) } };
}

type Outcome = { readonly step: number } & (
  { readonly kind: 'ok' } | { readonly kind: 'conflict' } | { readonly kind: 'unknown' }
);

interface Write {
  /** In the value of each record that is written for it. */
  readonly token: string;
  readonly id: string;
  readonly kind: 'put' | 'update';
  /** The version that a put replaces. */
  readonly expected: number;
  readonly sent: number;
  outcome: Outcome | undefined;
}

interface Look {
  readonly by: string;
  readonly id: string;
  readonly sent: number;
  readonly answered: number;
  /** Of the version that was seen; undefined: none. */
  readonly token: string | undefined;
}

interface Seat {
  readonly name: string;
  process: SimProcess | undefined;
  catalog: FencedCatalog | undefined;
  left: number;
  starts: number;
}

const MAX_STEPS = 20_000;
const ARTEFACTS: ArtefactStore = {
  put: () => Promise.resolve(),
  get: () => Promise.resolve(undefined),
  delete: () => Promise.resolve(),
};

/** Processes that share one catalog, each writing what it likes, and whatever may go wrong between them. */
export class CatalogWorld {
  readonly scheduler: Scheduler;
  readonly log: SimLog;
  readonly problems: string[] = [];
  readonly #plan: CatalogPlan;
  readonly #seats: Seat[];
  readonly #writes: Write[] = [];
  readonly #looks: Look[] = [];
  #left: { crashes: number; pauses: number };

  constructor(plan: CatalogPlan) {
    this.#plan = plan;
    this.scheduler = new Scheduler(plan.seed);
    this.log = new SimLog(this.scheduler, plan.faults);
    this.#seats = Array.from({ length: plan.processes }, (_, i) => ({
      name: `p${i}`,
      process: undefined,
      catalog: undefined,
      left: plan.writes,
      starts: 0,
    }));
    this.#left = { crashes: plan.crashes, pauses: plan.pauses };
  }

  async run(): Promise<void> {
    while (this.#seats.some(({ left }) => left > 0)) {
      if (!(await this.scheduler.next(this.#moves()))) break;
      if (this.scheduler.step > MAX_STEPS) throw new Error(`no end after ${MAX_STEPS} steps`);
    }
    this.log.faults = NO_FAULTS;
    for (const { process } of this.#seats) if (process !== undefined) process.paused = false;
    await this.#drain();
    for (const seat of this.#seats) if (seat.process === undefined) this.#start(seat);
    await this.#drain();
    for (const seat of this.#seats) for (const id of this.#ids()) this.#look(seat, id);
    await this.#drain();
  }

  async #drain(): Promise<void> {
    const limit = this.scheduler.step + MAX_STEPS;
    while (await this.scheduler.next())
      if (this.scheduler.step > limit)
        throw new Error(`no end after ${MAX_STEPS} steps of calm: two writers hold each other up`);
  }

  #ids(): string[] {
    return Array.from({ length: this.#plan.entities }, (_, i) => `t${i}`);
  }

  #moves(): Action[] {
    const moves: Action[] = [];
    const { random } = this.scheduler;
    const move = (label: string, weight: number, run: () => void, owner?: SimProcess): unknown =>
      moves.push({ label, weight, run, owner });
    for (const seat of this.#seats) {
      const { process, catalog, name } = seat;
      if (process === undefined) {
        move(`${name} starts`, 1, () => this.#start(seat));
        continue;
      }
      const waiting = this.#writes.filter(
        ({ token, outcome }) => outcome === undefined && token.startsWith(`${process.id}/`),
      ).length;
      if (catalog !== undefined && seat.left > 0 && waiting < 2)
        move(`${name} writes`, 0.6, () => this.#write(seat, random.pick(this.#ids())), process);
      if (catalog !== undefined) move(`${name} looks`, 0.2, () => this.#look(seat, random.pick(this.#ids())), process);
      if (this.#left.crashes > 0) move(`${name} crashes`, 0.03, () => this.#crash(seat, process));
      if (this.#left.pauses > 0 && !process.paused)
        move(`${name} is paused`, 0.05, () => void (this.#left.pauses--, (process.paused = true)));
      if (process.paused) move(`${name} goes on`, 0.15, () => (process.paused = false));
    }
    // Never within a day of a record (`min.compaction.lag.ms`): no write waits so long to learn what became of it.
    const oldest = this.#writes.find(({ outcome }) => outcome === undefined)?.sent ?? Infinity;
    move('the log is compacted', 0.05, () => this.log.compact(CATALOG_TOPIC, oldest));
    return moves;
  }

  #start(seat: Seat): void {
    const process: SimProcess = { id: `${seat.name}.${++seat.starts}`, alive: true, paused: false };
    seat.process = process;
    const stopped = (error: Error): void => {
      if (seat.catalog !== undefined || error instanceof InvariantError)
        this.problems.push(`${process.id} stopped: ${error.message}`);
    };
    this.scheduler.add({
      owner: process,
      label: 'opens',
      weight: 1,
      run: () => {
        FencedCatalog.open({
          log: this.log.client(process),
          codec: codecs.catalog,
          artefacts: ARTEFACTS,
          owner: process.id,
          logger: silentLogger,
          shared: true,
          sweepAfter: this.#plan.sweepAfter,
          onStopped: stopped,
        }).then(
          (catalog) => (seat.catalog = catalog),
          () => (seat.process = undefined), // the log was unreadable: started again
        );
      },
    });
  }

  #crash(seat: Seat, process: SimProcess): void {
    this.#left.crashes--;
    process.alive = false;
    this.scheduler.forget(process);
    seat.process = seat.catalog = undefined;
    for (const write of this.#writes)
      if (write.outcome === undefined && write.token.startsWith(`${process.id}/`))
        write.outcome = { kind: 'unknown', step: this.scheduler.step };
  }

  #write(seat: Seat, id: string): void {
    const { scheduler } = this;
    const { random } = scheduler;
    const { catalog, process } = seat;
    if (catalog === undefined || process === undefined) return;
    const seen = catalog.get('tenant', id);
    const write: Write = {
      token: `${process.id}/${seat.left--}`,
      id,
      kind: seen !== undefined && random.chance(0.5) ? 'update' : 'put',
      expected: Math.max(0, (seen?.version ?? 0) - (random.chance(0.1) ? 1 : 0)),
      sent: scheduler.step,
      outcome: undefined,
    };
    this.#writes.push(write);
    const value = (before: string): TenantEntity => ({
      tenantId: id,
      name: `${before} ${write.token}`,
      createdAt: write.token,
      partitions: 1,
      webhookSecrets: [],
    });
    const writing =
      write.kind === 'put'
        ? catalog.put('tenant', id, write.expected, value(seen?.value.name ?? ''))
        : catalog.update('tenant', id, ({ name }) => value(name));
    writing.then(
      () => (write.outcome = { kind: 'ok', step: scheduler.step }),
      (error: unknown) => {
        if (!(error instanceof StatefoldError) || !['ALREADY_EXISTS', 'UNAVAILABLE'].includes(error.code))
          this.problems.push(`${write.token} was answered ${String(error)}`);
        write.outcome = {
          kind: error instanceof StatefoldError && error.code === 'ALREADY_EXISTS' ? 'conflict' : 'unknown',
          step: scheduler.step,
        };
      },
    );
  }

  /** Reads what all had written by now. */
  #look(seat: Seat, id: string): void {
    const { catalog, process } = seat;
    if (catalog === undefined || process === undefined) return;
    const sent = this.scheduler.step;
    catalog.caughtUp().then(
      () =>
        this.#looks.push({
          by: process.id,
          id,
          sent,
          answered: this.scheduler.step,
          token: catalog.get('tenant', id)?.value.createdAt,
        }),
      () => undefined,
    );
  }

  /** Holds what the processes said against the log. */
  check(): {
    readonly problems: readonly string[];
    readonly voids: number;
    readonly epochs: number;
    readonly accepted: number;
  } {
    const { versions, voids, epochs } = this.#truth();
    const bad = (problem: string): unknown => this.problems.push(problem);
    for (const { token, id, kind, expected, sent, outcome } of this.#writes) {
      const mine = versions.filter((version) => version.token === token);
      if (outcome === undefined) bad(`${token} was never answered`);
      if (mine.length > 1) bad(`${token} is in the log ${mine.length} times`);
      if (outcome?.kind === 'ok' && mine.length === 0) bad(`${token} was answered and is not in the log`);
      if (outcome?.kind === 'ok' && (mine[0]?.step ?? 0) > outcome.step)
        bad(`${token} was answered before it was in the log`);
      if (outcome?.kind !== 'conflict') continue;
      if (mine.length > 0) bad(`${token} was refused and is in the log`);
      if (kind === 'update') bad(`${token}, an update, was answered a conflict`);
      const others = versions.filter((version) => version.id === id && version.step <= outcome.step);
      // At some moment between the question and the answer the entity was at another version.
      if (
        !others.some(
          ({ version, step }, i) =>
            version !== expected && (others[i + 1]?.step ?? Infinity) > sent && step <= outcome.step,
        ) &&
        !(expected !== 0 && (others[0]?.step ?? Infinity) > sent)
      )
        bad(`${token} was refused, but ${id} was at version ${expected} all the time`);
    }
    for (const { by, id, sent, answered, token } of this.#looks) {
      const of = versions.filter((version) => version.id === id);
      const seen = of.findIndex((version) => version.token === token);
      const from = token === undefined ? -1 : (of[seen]?.step ?? Infinity);
      if (from > answered || (of[seen + 1]?.step ?? Infinity) <= sent)
        bad(`${by} saw ${token} of ${id} between ${sent} and ${answered}`);
    }
    return { problems: this.problems, voids, epochs, accepted: versions.length };
  }

  #truth(): {
    readonly versions: readonly {
      readonly id: string;
      readonly token: string;
      readonly version: number;
      readonly step: number;
    }[];
    readonly voids: number;
    readonly epochs: number;
  } {
    const store = new EntityStore();
    const versions: { id: string; token: string; version: number; step: number }[] = [];
    let state: FenceState = EMPTY_FENCE;
    let voids = 0;
    for (const { offset, value, step } of this.log.records(CATALOG_TOPIC)) {
      const record = value === null ? undefined : codecs.catalog.decode(value);
      const folded = foldRecord<CatalogBody>(state, offset, record, ({ value: entity }) => store.accepts(entity));
      state = folded.state;
      if (folded.verdict === 'void' && record !== undefined) voids++;
      if (folded.verdict !== 'accepted' || record?.body.kind !== 'Entity') continue;
      const { value: entity } = record.body;
      const before = store.get('tenant', entity.id)?.version ?? 0;
      if (entity.replaces !== before)
        this.problems.push(`${entity.id} goes from version ${before} to one that replaces ${entity.replaces}`);
      store.apply(entity, offset);
      versions.push({
        id: entity.id,
        token: (JSON.parse(entity.value ?? '') as TenantEntity).createdAt,
        version: entity.replaces + 1,
        step,
      });
    }
    return { versions, voids, epochs: state.epoch };
  }
}

export interface CatalogOutcome {
  readonly problems: readonly string[];
  readonly trace: readonly string[];
  readonly voids: number;
  readonly epochs: number;
  readonly accepted: number;
}

export async function simulateCatalog(plan: CatalogPlan): Promise<CatalogOutcome> {
  const world = new CatalogWorld(plan);
  const release = world.scheduler.takeTimers();
  try {
    await world.run();
    return { ...world.check(), trace: world.scheduler.trace };
  } catch (error) {
    return {
      problems: [...world.problems, error instanceof Error ? (error.stack ?? error.message) : String(error)],
      trace: world.scheduler.trace,
      voids: 0,
      epochs: 0,
      accepted: 0,
    };
  } finally {
    release();
  }
}
