import { taskOptions } from '../../src/app/open-tasks.js';
import type { Change } from '../../src/core/change.js';
import { pushedInto } from '../support/all-changes.js';
import { InvariantError, NotOwnerError, StatefoldError } from '../../src/core/errors.js';
import type { ExpectedVersion, StoredEvent, TransactedAppend } from '../../src/core/event.js';
import type { BuildTarget } from '../../src/projections/projection-builds.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { bindAll, codecs, testGround, type TestGround } from '../support/ground.js';
import { simCodeHost, SimRunner, type Payload } from './sim-code.js';
import { NO_FAULTS, SimLog, type LogFaults } from './sim-log.js';
import { SimDisk } from './sim-store.js';
import { modelOf, oldestKnown, truthOf, type Truth } from './truth.js';
import { Random, Scheduler, type Action, type SimProcess } from './scheduler.js';

export { codecs };
export const TENANT = 't';
export const EVENTS = `statefold.${TENANT}.events`;
export const CHANGES = `statefold.${TENANT}.changes`;
export const REDACTIONS = `statefold.${TENANT}.redactions`;
export const AGGREGATE_TYPE = 'acc';

export interface WorldOptions {
  readonly seed: number;
  readonly machines: number;
  readonly clients: number;
  /** Commands of each client. */
  readonly commands: number;
  readonly aggregates: number;
  readonly keys: number;
  readonly faults: LogFaults;
  readonly crashes: number;
  readonly pauses: number;
  readonly takeovers: number;
  /** Machines that begin to stand by. */
  readonly standbys: number;
  /** Standbys that are promoted though somebody owns the tenant; where nobody does, one is sooner or later. */
  readonly promotions: number;
  /** Owners that give up in order, before anybody else has claimed. */
  readonly handovers: number;
  /** Snapshots of the store of a process that is, or was, the owner; machines that start later have the newest instead of their own. */
  readonly snapshots: number;
  /** How often retention takes the changes, and the claims in them. */
  readonly trims: number;
  /** Projections and revisions that are deployed in the run. */
  readonly deploys: readonly BuildTarget[];
  /** Of 100 calls of the runner so many crash it. */
  readonly runnerCrashes: number;
  /** Of 100 writes of a local store so many fail. */
  readonly storeFailures: number;
  readonly window: number;
  readonly strictReads?: boolean;
  readonly flushEntries: number;
  readonly tailBytes: number;
  /** Subscribers go through history in turns, as those of clients do. */
  readonly inTurns?: boolean;
  /** Changes of one produce: of an input with more they come in parts. */
  readonly changesPerProduce: number;
  /** Of work over all rows of a projection, so many at a time. */
  readonly rowsPerSlice: number;
  /** Of 100 events so many stop their state keys. */
  readonly bad: number;
  /** Of 100 events so many stop their aggregates. */
  readonly bitter: number;
  /** Of 1000 events that are run, on so many the process is stopped. */
  readonly stops: number;
  /** Retries and skips, of keys and of aggregates. */
  readonly releases: number;
  /** Of 100 commands so many are transactions over several aggregates, where there are several. */
  readonly transactions: number;
  /** Erasures that are asked for, of any aggregate. With them a cleaner comes by, and at the end all projections are built again. */
  readonly erasures: number;
}

/** An erasure that was asked for. */
export interface AskedErasure {
  readonly aggregateId: string;
  readonly sent: number;
  /** Step of the answer that it is in the log. */
  answered: number | undefined;
}

export type Answer =
  | {
      readonly kind: 'ok';
      readonly step: number;
      readonly timestamp: number;
      /** Of each aggregate of the command. */
      readonly results: readonly TransactedAppend[];
    }
  | { readonly kind: 'refused'; readonly step: number; readonly error: StatefoldError }
  /** `notStored`: the process said that nothing was, nor will be. */
  | { readonly kind: 'unknown'; readonly step: number; readonly notStored: boolean };

export interface Attempt {
  readonly sent: number;
  answer: Answer | undefined;
}

/** What a command adds to an aggregate. */
export interface CommandPart {
  readonly aggregateId: string;
  readonly expectedVersion: ExpectedVersion;
  readonly payloads: readonly Payload[];
}

export interface Command {
  readonly number: number;
  readonly commandId: string;
  readonly keyed: boolean;
  readonly requestHash: Buffer;
  /** Of an append one; of a transaction one or more. */
  readonly parts: readonly CommandPart[];
  readonly transaction: boolean;
  readonly attempts: Attempt[];
}

export interface Read {
  readonly sent: number;
  readonly answered: number;
  readonly aggregateId: string;
  /** Undefined: there is no such aggregate. */
  readonly events: readonly StoredEvent[] | undefined;
  /** It was answered that the aggregate was erased. */
  readonly gone: boolean;
}

/** A process that serves the tenant on a machine. */
export interface Running {
  readonly process: SimProcess;
  readonly task: TenantTask;
  /** What a subscriber was pushed. */
  readonly pushed: Change[];
  open: boolean;
  /** Follows the owner; undefined once it was told to take over. */
  standby: boolean;
  /** What waits for it to answer. */
  readonly waiting: Set<Attempt>;
}

export class Machine {
  readonly disk: SimDisk;
  running: Running | undefined;
  starts = 0;
  constructor(
    readonly name: string,
    scheduler: Scheduler,
  ) {
    this.disk = new SimDisk(scheduler);
  }
}

interface Client {
  left: number;
  busy: boolean;
  retry: Command | undefined;
  done: Command[];
}

const EMPTY_ROW = 'null';
/** In the words of a problem, before the keys that were not compared. */
export const LEFT_OUT = 'left out were';
const rowText = (state: Buffer | null, faulted: boolean): string => `${state?.toString() ?? null}${faulted ? '!' : ''}`;
/** What a state says of the events that it was made of. */
const tokensOf = (row: string): readonly string[] => row.match(/\d+\.\d+/g) ?? [];
const hasFaults = ({ task: { faulted } }: Running): boolean => faulted.aggregates + faulted.keys > 0;
const MAX_STEPS = 20_000;
const ATTEMPTS = 4;

/** Machines that serve one tenant over one log, clients that use it, and whatever may go wrong between them. */
export class World {
  readonly options: WorldOptions;
  readonly scheduler: Scheduler;
  readonly log: SimLog;
  readonly machines: Machine[];
  readonly commands: Command[] = [];
  readonly reads: Read[] = [];
  readonly erasures: AskedErasure[] = [];
  readonly runs: Running[] = [];
  readonly problems: string[] = [];
  /** The newest revision of each projection, as the catalog has it. */
  readonly deployed = new Map<string, BuildTarget>();
  readonly #clients: Client[];
  readonly #ground: TestGround;
  /** Of a sequence of its own: what a seed makes of a world is the same with and without readers of states. */
  readonly #eyes: Random;
  /** Where retention cuts. */
  readonly #cuts: Random;
  /** How often states were looked at, and how often so with keys that were left out, while others were there to compare. */
  looks = 0;
  partialLooks = 0;
  /** Standbys that were promoted, and those of them that had come past the first input with their projections. */
  readonly promoted = { standbys: 0, ahead: 0 };
  #left: {
    crashes: number;
    pauses: number;
    takeovers: number;
    standbys: number;
    promotions: number;
    handovers: number;
    snapshots: number;
    trims: number;
    releases: number;
    erasures: number;
    deploys: BuildTarget[];
  };
  /** Machines that started from a snapshot. */
  restored = 0;
  /** How often retention took changes. */
  trimmed = 0;
  #snapshot: ReadonlyMap<string, Buffer> | undefined;
  #calm = false;

  constructor(options: WorldOptions) {
    this.options = options;
    this.#ground = testGround({
      directory: '/nothing-is-kept-there',
      env: {
        IDEMPOTENCY_WINDOW: String(options.window),
        STRICT_READS: String(options.strictReads === true),
        // Only the world's own time passes.
        FOLD_DEADLINE_MS: '1000000000',
      },
    });
    this.scheduler = new Scheduler(options.seed);
    this.#eyes = new Random(options.seed ^ 0x5ee);
    this.#cuts = new Random(options.seed ^ 0xc07);
    this.log = new SimLog(this.scheduler, options.faults);
    this.machines = Array.from({ length: options.machines }, (_, i) => this.machine(`m${i}`));
    this.#clients = Array.from({ length: options.clients }, () => ({
      left: options.commands,
      busy: false,
      retry: undefined,
      done: [],
    }));
    const { crashes, pauses, takeovers, standbys, promotions, handovers, snapshots, trims, releases, deploys } =
      options;
    const { erasures } = options;
    this.#left = {
      crashes,
      pauses,
      takeovers,
      standbys,
      promotions,
      handovers,
      snapshots,
      trims,
      releases,
      erasures,
      deploys: [...deploys],
    };
  }

  machine(name: string): Machine {
    const machine = new Machine(name, this.scheduler);
    machine.disk.failing = this.options.storeFailures;
    return machine;
  }

  /** Runs to the end: all clients done, all faults over, and every projection folded by whoever owns the tenant then. */
  async run(): Promise<void> {
    for (;;) {
      const moves = this.#moves();
      if (!(await this.scheduler.next(moves))) break;
      this.#look();
      if (this.scheduler.step > MAX_STEPS) throw new Error(`no end after ${MAX_STEPS} steps`);
      if (this.#clients.every(({ left, busy, retry }) => left === 0 && !busy && retry === undefined)) break;
    }
    await this.settle();
  }

  /** No more faults; runs until nothing is left to do, with at least one process up. */
  async settle(): Promise<void> {
    this.#calm = true;
    this.log.faults = NO_FAULTS;
    for (const machine of this.machines) {
      machine.disk.failing = 0;
      if (machine.running) machine.running.process.paused = false;
    }
    for (const target of this.#left.deploys.splice(0)) this.#deploy(target);
    await this.#drain();
    await this.owner();
    if (this.options.erasures === 0) return;
    // What was erased meanwhile may be in live states until they are built again.
    for (const [projectionId, target] of this.deployed)
      this.#deploy({ ...target, projectionId, revision: target.revision + 10, cause: 'rebuild' });
    await this.#drain();
    await this.owner();
  }

  /** The machine whose process owns the tenant: one that was deposed finds out when it is asked. */
  async owner(): Promise<Machine> {
    for (let tries = 0; tries < 20; tries++) {
      for (const machine of this.machines) {
        let owns = false;
        const { running } = machine;
        if (!running?.open || running.standby) continue;
        running.task.aggregates.types().then(
          () => (owns = true),
          () => undefined,
        );
        await this.#drain();
        if (owns) return machine;
      }
      const standby = this.machines.find(({ running }) => running?.open && running.standby);
      const free = this.machines.find(({ running }) => running === undefined);
      if (standby?.running !== undefined) this.promote(standby.running);
      else if (free !== undefined) this.start(free);
      await this.#drain();
    }
    throw new Error('no process comes to own the tenant');
  }

  /** A new process on the machine, after the one that may run there has closed. */
  start(machine: Machine, standby = false): Running {
    const process: SimProcess = { id: `${machine.name}.${++machine.starts}`, alive: true, paused: false };
    const { scheduler, options } = this;
    if (this.#snapshot !== undefined && scheduler.random.chance(0.5)) {
      machine.disk.load(this.#snapshot);
      this.restored++;
    }
    const runner = new SimRunner(
      scheduler,
      process,
      () => !this.#calm && scheduler.random.chance(options.runnerCrashes / 100),
      () => !this.#calm && options.stops > 0 && scheduler.random.chance(options.stops / 1000),
    );
    const pushed: Change[] = [];
    const stopped = (error: Error): void => {
      if (error instanceof InvariantError) this.problems.push(`${process.id} stopped: ${error.message}`);
      void this.#close(machine, running);
    };
    const ground = {
      ...this.#ground,
      owner: process.id,
      clock: { now: () => 1_700_000_000_000 + scheduler.step + (machine.name.charCodeAt(1) % 3) * 50 },
    };
    const store = machine.disk.open(process, options.flushEntries);
    const definitions: TenantDefinitions = {
      bindAll: bindAll({ aggregateType: AGGREGATE_TYPE, artefactId: 'reducer', className: 'R', generation: 1 }),
      projections: () => [...this.deployed.values()],
      projectionExists: (projectionId) => this.deployed.has(projectionId),
      assembly: () => Promise.resolve(Buffer.alloc(0)),
    };
    const storage = { log: this.log.client(process), codecs, store };
    const task = new TenantTask({
      ...taskOptions(ground, storage, simCodeHost(runner), TENANT, definitions),
      tailBytes: options.tailBytes,
      // Who takes over cuts elsewhere than the one before.
      changesPerProduce: options.changesPerProduce + (machine.name.charCodeAt(1) % 2),
      slice: { rows: options.rowsPerSlice, bytes: 1e6 },
      onStopped: stopped,
    });
    const running: Running = { process, task, pushed, open: false, standby, waiting: new Set() };
    machine.running = running;
    this.runs.push(running);
    scheduler.add({
      owner: process,
      label: standby ? 'stands by' : 'opens',
      weight: 1,
      run: () => {
        pushedInto(task, pushed, this.options.inTurns);
        task.open({ standby }).then(
          () => (running.open = true),
          (error: unknown) => {
            if (error instanceof InvariantError) this.problems.push(`${process.id} could not open: ${error.message}`);
            return this.#close(machine, running);
          },
        );
      },
    });
    return running;
  }

  promote(running: Running): void {
    const { process, task } = running;
    running.standby = running.open = false;
    this.promoted.standbys++;
    this.scheduler.add({
      owner: process,
      label: 'is promoted',
      weight: 1,
      run: () => {
        if (task.projectionLag < this.log.records(EVENTS).length - 1) this.promoted.ahead++;
        task.promote().then(
          () => (running.open = true),
          (error: unknown) => {
            if (error instanceof InvariantError)
              this.problems.push(`${process.id} could not be promoted: ${error.message}`);
            const machine = this.machines.find((one) => one.running === running);
            return machine === undefined ? undefined : this.#close(machine, running);
          },
        );
      },
    });
  }

  crash(machine: Machine): void {
    const { running } = machine;
    if (running === undefined) return;
    running.process.alive = false;
    machine.disk.crash();
    this.scheduler.forget(running.process);
    machine.running = undefined;
    for (const attempt of [...running.waiting]) this.#unknown(running, attempt);
  }

  async close(machine: Machine): Promise<void> {
    if (machine.running) void this.#close(machine, machine.running);
    await this.#drain();
  }

  async #close(machine: Machine, running: Running): Promise<void> {
    running.open = false;
    await running.task.close();
    if (machine.running === running) machine.running = undefined;
  }

  async #drain(): Promise<void> {
    const limit = this.scheduler.step + MAX_STEPS;
    await this.scheduler.turn(); // what was just called may not have asked for anything yet
    while (await this.scheduler.next())
      if (this.scheduler.step > limit) throw new Error(`no end after ${MAX_STEPS} steps of calm`);
  }

  /** What the world may do by itself. */
  #moves(): Action[] {
    const moves: Action[] = [];
    const move = (label: string, weight: number, run: () => void, owner?: SimProcess): unknown =>
      moves.push({ label, weight, run, owner });
    const up = this.machines.filter(({ running }) => running?.open && !running.standby);
    const standbys = this.machines.flatMap(({ running }) => (running?.open && running.standby ? [running] : []));
    this.#clients.forEach((client, i) => {
      if (client.busy || (client.left === 0 && client.retry === undefined)) return;
      for (const { running } of up)
        if (running) move(`client ${i} sends`, 1 / up.length, () => this.#send(client, running), running.process);
      for (const running of standbys)
        move(`client ${i} asks a standby`, 0.05, () => this.#send(client, running), running.process);
    });
    for (const { running } of this.machines) {
      if (running === undefined) continue;
      for (const attempt of running.waiting)
        move('a client waits no longer', running.process.paused ? 0.2 : 0.01, () => this.#unknown(running, attempt));
      if (running.process.paused) move(`${running.process.id} goes on`, 0.15, () => (running.process.paused = false));
    }
    const down = this.machines.filter(({ running }) => running === undefined);
    for (const machine of down) {
      if (up.length === 0) move(`${machine.name} starts`, 1, () => this.start(machine));
      else if (this.#left.takeovers > 0)
        move(`${machine.name} takes over`, 0.04, () => void (this.#left.takeovers--, this.start(machine)));
      if (up.length > 0 && this.#left.standbys > 0)
        move(`${machine.name} stands by`, 0.4, () => void (this.#left.standbys--, this.start(machine, true)));
    }
    if (this.#left.snapshots > 0)
      for (const machine of up)
        if (machine.disk.size > 0)
          move(
            `a snapshot of ${machine.name} is written`,
            0.05,
            () => void (this.#left.snapshots--, (this.#snapshot = machine.disk.image())),
          );
    for (const running of standbys) {
      if (up.length === 0) move(`${running.process.id} is to take over`, 1, () => this.promote(running));
      else if (this.#left.promotions > 0)
        move(`${running.process.id} is to take over`, 0.1, () => void (this.#left.promotions--, this.promote(running)));
    }
    if (this.#left.handovers > 0)
      for (const machine of up) {
        const { running } = machine;
        if (running !== undefined)
          move(
            `${running.process.id} gives up`,
            0.02,
            () => void (this.#left.handovers--, void this.#close(machine, running)),
            running.process,
          );
      }
    for (const machine of this.machines) {
      const { running } = machine;
      if (running === undefined) continue;
      if (this.#left.crashes > 0)
        move(`${running.process.id} crashes`, 0.03, () => void (this.#left.crashes--, this.crash(machine)));
      if (this.#left.pauses > 0 && !running.process.paused)
        move(
          `${running.process.id} is paused`,
          0.05,
          () => void (this.#left.pauses--, (running.process.paused = true)),
        );
    }
    if (this.#left.releases > 0)
      for (const { running } of up)
        if (running)
          move(
            `${running.process.id} is asked to take faults on`,
            // Mostly where there are some.
            (hasFaults(running) ? 3 : 0.1) / up.length,
            () => void (this.#left.releases--, this.#release(running)),
            running.process,
          );
    if (this.#left.trims > 0) {
      for (const { running } of up)
        if (running)
          move(
            `${running.process.id} repeats its claim`,
            0.05,
            () => void running.task.repeatClaim().catch(() => undefined),
            running.process,
          );
      move('retention takes changes', 0.05, () => this.trim(false, this.#cuts.next()));
    }
    if (this.options.erasures > 0) {
      for (const { running } of this.#left.erasures > 0 ? up : [])
        if (running)
          move(
            `${running.process.id} is asked to erase`,
            0.15 / up.length,
            () => void (this.#left.erasures--, this.#erase(running)),
            running.process,
          );
      move('a cleaner takes what was tombstoned', 0.1, () => this.compact());
    }
    const [target] = this.#left.deploys;
    if (target !== undefined)
      move(
        `${target.projectionId}@${target.revision} is deployed`,
        0.1,
        () => void (this.#left.deploys.shift(), this.#deploy(target)),
      );
    return moves;
  }

  /**
   * Retention takes what is older than its days: by then nothing is on its way any more, what was acknowledged then is projected,
   * who serves the tenant has repeated its claim. The last change stays unless `all` goes: a process without a store that finds none
   * can't tell what was never projected from what was told long ago. It takes `part` of what it may, up to any offset. False: it isn't
   * so now.
   */
  trim(all = false, part = 1): boolean {
    if (this.scheduler.has(({ label }) => / to changes land/.test(label))) return false;
    const truth = truthOf(this.log);
    if (!this.#isProjected(truth)) return false;
    const served = this.machines.some(({ running }) => running !== undefined);
    const last = all ? Infinity : (truth.changes.at(-1)?.sequence ?? 0);
    const most = Math.min(last, served ? (truth.claims.at(-1) ?? 0) : this.log.records(CHANGES).length);
    const start = this.log.start(CHANGES);
    this.log.trim(CHANGES, start + Math.round(Math.max(0, most - start) * part));
    this.#left.trims--;
    this.trimmed++;
    return true;
  }

  /** All that was accepted is projected, and every swap is told. */
  #isProjected(truth: Truth): boolean {
    // Which changes there are to be of what is erased meanwhile is nobody's to say beforehand: an owner that has folded all knows.
    if (this.options.erasures > 0)
      return this.machines.some(
        ({ running }) =>
          running?.open === true &&
          !running.standby &&
          running.task.first.position === this.log.records(EVENTS).length &&
          running.task.idle &&
          [...this.deployed.values()].every(
            ({ projectionId, revision }) => running.task.projections.life(projectionId).live?.revision === revision,
          ),
      );
    return [...this.deployed.keys()].every(
      (projectionId) =>
        modelOf(truth, projectionId).due.length ===
        truth.changes.filter(({ value }) => value.projectionId === projectionId).length,
    );
  }

  /** Takes all that was tombstoned, as a cleaner does when it likes. */
  compact(): void {
    for (const topic of [EVENTS, REDACTIONS]) this.log.compact(topic, this.scheduler.step);
  }

  #erase({ task }: Running): void {
    const aggregateId = `${AGGREGATE_TYPE}-${this.#eyes.below(this.options.aggregates)}`;
    const asked: AskedErasure = { aggregateId, sent: this.scheduler.step, answered: undefined };
    this.erasures.push(asked);
    task.first.erase(aggregateId, undefined).then(
      () => (asked.answered = this.scheduler.step),
      (error: unknown) => {
        if (!(error instanceof StatefoldError) || !['NOT_FOUND', 'UNAVAILABLE'].includes(error.code))
          this.problems.push(`an erasure was answered ${error instanceof Error ? (error.stack ?? '') : 'no error'}`);
      },
    );
  }

  /** A reader of states comes by, mostly while a swap is under way: what it sees is what was told up to one place, never a part of a swap. */
  #look(): void {
    // What a process was stopped on need not come again, and is then told late.
    if (this.options.stops > 0) return;
    const seldom = this.trimmed > 0 && this.erasures.length > 0 ? 0.1 : 0.01;
    for (const { running } of this.machines) {
      if (running?.open !== true || running.standby || running.task.status !== 'RUNNING') continue;
      const { task } = running;
      for (const projectionId of this.deployed.keys()) {
        const { building, erasedSinceBuild } = task.projections.life(projectionId);
        if (!this.#eyes.chance(building?.final === true ? 0.3 : seldom)) continue;
        const { projections } = task.inspection;
        const live = projections.live(projectionId);
        if (live === undefined) continue;
        const end = projections.position();
        const told = new Map<string, string>();
        const truth = truthOf(this.log);
        const { changes } = truth;
        const forgotten = this.#forgotten(truth, projectionId, end);
        const unheard = this.#unheard(truth, projectionId, task.changes.lastSequence());
        for (const { sequence, value } of changes)
          if (value.projectionId === projectionId && value.inputOffset < end && !unheard.has(sequence))
            told.set(value.key, rowText(value.state, value.fault !== null));
        const seen = [...projections.rows(projectionId, live.revision)].map(
          ([key, , { state, fault }]) => [key, rowText(state, fault !== undefined)] as const,
        );
        if (!erasedSinceBuild)
          for (const [key, row] of seen)
            if (tokensOf(row).some((token) => this.#isErased(truth, token, end)))
              this.problems.push(
                `erasure: ${running.process.id} says that ${projectionId}@${live.revision} has nothing of what was erased, and ${key} is ${row}`,
              );
        const text = (rows: Iterable<readonly [string, string]>): string =>
          [...rows]
            .filter(([key, row]) => row !== EMPTY_ROW && !forgotten.has(key))
            .map((row) => row.join('='))
            .sort()
            .join(' ');
        // Where nothing is left to compare it says nothing.
        const compared = [...told.keys()].filter((key) => !forgotten.has(key)).length;
        if (compared > 0) this.looks++;
        if (compared > 0 && forgotten.size > 0) this.partialLooks++;
        const right = [text(told)];
        // Of an input whose changes come in parts, and of no other, the first ones may be there already.
        if (projections.whole() !== undefined) {
          const parted = changes.find(({ value }) => value.inputOffset >= end)?.value.inputOffset;
          for (const { value } of changes)
            if (value.projectionId === projectionId && value.inputOffset === parted && value.last !== undefined) {
              told.set(value.key, rowText(value.state, value.fault !== null));
              right.push(text(told));
            }
        }
        if (!right.includes(text(seen)))
          this.problems.push(
            `11: ${running.process.id} shows ${text(seen)} of ${projectionId}@${live.revision} at place ${end}; told was ${right.join(' or ')}${forgotten.size === 0 ? '' : `; ${LEFT_OUT} ${[...forgotten].join(' ')}`}`,
          );
      }
    }
  }

  /**
   * Keys of which retention took what was told of events that are erased: a process whose store is of before has neither, until it
   * meets a change of the key that is left.
   */
  #forgotten(truth: Truth, projectionId: string, end: number): ReadonlySet<string> {
    const { changes, commits, erased } = truth;
    const forgotten = new Set<string>();
    if (erased.size === 0) return forgotten;
    const oldest = oldestKnown(this.log, truth);
    const gone = new Set(commits.filter(({ value }) => erased.has(value.aggregateId)).map((commit) => commit.offset));
    for (const { sequence, value } of changes) {
      if (value.projectionId !== projectionId || value.inputOffset >= end) continue;
      if (sequence >= oldest) forgotten.delete(value.key);
      else if (gone.has(value.inputOffset)) forgotten.add(value.key);
    }
    return forgotten;
  }

  /** The event was made by that part of a command whose aggregate is erased before the place. */
  #isErased({ erasedAt }: Truth, token: string, end: number): boolean {
    return this.commands.some(({ number, parts }) =>
      parts.some(
        ({ aggregateId, payloads }) =>
          (erasedAt.get(aggregateId) ?? Infinity) < end && payloads.some(({ i }) => `${number}.${i}` === token),
      ),
    );
  }

  /**
   * Sequences behind what a process has heard of, of keys that the next owner told of an input that was folded without what was erased,
   * and of those that stand on them: a former owner that does not know yet that it is one may have passed the input.
   */
  #unheard({ changes, commits, erased }: Truth, projectionId: string, heard: number): ReadonlySet<number> {
    const unheard = new Set<number>();
    if (erased.size === 0) return unheard;
    const whole = new Set(commits.map(({ offset }) => offset));
    for (const { offset, value } of commits) if (erased.has(value.aggregateId)) whole.delete(offset);
    const keys = new Set<string>();
    for (const { sequence, value } of changes) {
      if (value.projectionId !== projectionId || sequence <= heard) continue;
      if (!whole.has(value.inputOffset)) keys.add(value.key);
      if (keys.has(value.key)) unheard.add(sequence);
    }
    return unheard;
  }

  /** Whoever asks does not wait: what came of it is in the log, or not. */
  #release({ task }: Running): void {
    const { random } = this.scheduler;
    const mode = random.pick(['retry', 'skip'] as const);
    const refused = (error: unknown): void => {
      if (!(error instanceof StatefoldError))
        this.problems.push(
          `a ${mode} was answered ${error instanceof Error ? (error.stack ?? error.message) : 'no error'}`,
        );
    };
    const any = { mode, eventId: undefined, version: undefined };
    const { aggregates, keys } = task.faulted;
    if (random.chance(keys === 0 ? 0.7 : aggregates === 0 ? 0.1 : 0.5))
      return void task.first
        .release({
          ...any,
          aggregateType: AGGREGATE_TYPE,
          aggregateId: `${AGGREGATE_TYPE}-${random.below(this.options.aggregates)}`,
        })
        .catch(refused);
    const [projectionId = 'p'] = random.chance(0.7) ? ['p'] : this.deployed.keys();
    const key = random.chance(0.7) ? undefined : `k${random.below(this.options.keys)}`;
    task.faults.releaseKeys({ ...any, projectionId, key, className: undefined }).catch(refused);
  }

  #deploy(target: BuildTarget): void {
    this.deployed.set(target.projectionId, target);
    for (const { running } of this.machines)
      if (running?.open)
        this.scheduler.add({
          owner: running.process,
          label: `hears of ${target.projectionId}@${target.revision}`,
          weight: 1,
          run: () => running.task.deploy(target),
        });
  }

  #send(client: Client, running: Running): void {
    const { random } = this.scheduler;
    if (client.retry === undefined && random.chance(0.25)) return this.#read(client, running);
    const command = client.retry ?? this.#command(client);
    client.retry = undefined;
    this.#append(client, running, command);
  }

  /** The versions that some client has been told, by aggregate. */
  #seen(aggregateId: string): number {
    let seen = 0;
    for (const command of this.commands)
      for (const { answer } of command.attempts)
        if (answer?.kind === 'ok')
          for (const result of answer.results)
            if (result.aggregateId === aggregateId) seen = Math.max(seen, result.endVersion);
    return seen;
  }

  #command(client: Client): Command {
    const { random } = this.scheduler;
    const { aggregates, keys, bad, bitter, transactions } = this.options;
    client.left--;
    const number = this.commands.length;
    const again = client.done.length > 0 && random.chance(0.15) ? random.pick(client.done) : undefined;
    const transaction = again?.transaction ?? (transactions > 0 && random.chance(transactions / 100));
    const [before] = again?.parts ?? [];
    const aggregateId = before?.aggregateId ?? `${AGGREGATE_TYPE}-${random.below(aggregates)}`;
    const expectedVersion = (of: string): ExpectedVersion => {
      if (random.chance(0.4)) return 'any';
      if (random.chance(0.2)) return random.pick(['none', 'exists']);
      return Math.max(0, this.#seen(of) - (random.chance(0.2) ? 1 : 0));
    };
    const expected = expectedVersion(aggregateId);
    const payload = (i: number): Payload => {
      const first = `k${random.below(keys)}`;
      const second = `k${random.below(keys)}`;
      return {
        c: number,
        i,
        k: first !== second && random.chance(0.4) ? [first, second] : [first],
        bad: random.chance(bad / 100),
        bitter: random.chance(bitter / 100),
      };
    };
    let events = 0;
    const payloads = (): Payload[] =>
      Array.from({ length: random.chance(0.3) ? 2 + random.below(2) : 1 }, () => payload(events++));
    const first = { aggregateId, expectedVersion: expected, payloads: payloads() };
    // Of all aggregates, or all but some: a transaction of one is a transaction too.
    const others = !transaction
      ? []
      : Array.from({ length: aggregates }, (_, i) => `${AGGREGATE_TYPE}-${i}`)
          .filter((id) => id !== aggregateId && random.chance(0.7))
          .map((id) => ({ aggregateId: id, expectedVersion: expectedVersion(id), payloads: payloads() }));
    const keyed = again?.keyed ?? random.chance(0.4);
    const same = again?.keyed === true && random.chance(0.7);
    const command: Command = {
      number,
      transaction,
      commandId: again?.keyed ? again.commandId : `${keyed ? 'key' : 'id'}-${number}`,
      keyed,
      requestHash: Buffer.from(keyed ? (same ? again.requestHash.toString() : `body-${number}`) : ''),
      parts: same ? again.parts : [first, ...others],
      attempts: [],
    };
    this.commands.push(command);
    if (keyed) client.done.push(command);
    return command;
  }

  #append(client: Client, running: Running, command: Command): void {
    const { scheduler } = this;
    const attempt: Attempt = { sent: scheduler.step, answer: undefined };
    command.attempts.push(attempt);
    running.waiting.add(attempt);
    client.busy = true;
    this.#onAnswer.set(attempt, (answer) => {
      running.waiting.delete(attempt);
      attempt.answer = answer;
      client.busy = false;
      if (answer.kind === 'unknown' && command.keyed && command.attempts.length < ATTEMPTS) client.retry = command;
    });
    const { commandId, keyed, requestHash } = command;
    const { standby } = running;
    const context = { correlationId: undefined, causationId: undefined, metadata: undefined };
    const appends = command.parts.map(({ aggregateId, expectedVersion, payloads }) => ({
      aggregateId,
      expectedVersion,
      aggregateType: undefined,
      events: payloads.map((payload) => ({ eventType: 'happened', data: Buffer.from(JSON.stringify(payload)) })),
    }));
    const [append] = appends;
    if (append === undefined) throw new Error('a command without an aggregate');
    const { first } = running.task;
    const stored = command.transaction
      ? first.transact({ commandId, keyed, requestHash, ...context, appends })
      : first
          .append({ commandId, keyed, requestHash, ...context, ...append })
          .then((result) => ({ timestamp: result.timestamp, appends: [result] }));
    stored.then(
      ({ timestamp, appends: results }) => {
        if (standby) this.problems.push(`8: ${running.process.id}, a standby, answered an append`);
        this.#answer(attempt, { kind: 'ok', step: scheduler.step, timestamp, results });
      },
      (error: unknown) => {
        const cause = error instanceof StatefoldError ? error.cause : error;
        if (!(error instanceof StatefoldError) || cause instanceof InvariantError)
          this.problems.push(`an append was answered ${cause instanceof Error ? cause.message : 'no error'}`);
        if (!(error instanceof StatefoldError) || error.code === 'UNAVAILABLE')
          this.#answer(attempt, { kind: 'unknown', step: scheduler.step, notStored: error instanceof NotOwnerError });
        else this.#answer(attempt, { kind: 'refused', step: scheduler.step, error });
      },
    );
  }

  readonly #onAnswer = new Map<Attempt, (answer: Answer) => void>();

  #answer(attempt: Attempt, answer: Answer): void {
    const tell = this.#onAnswer.get(attempt);
    this.#onAnswer.delete(attempt);
    tell?.(answer);
  }

  #unknown(_running: Running, attempt: Attempt): void {
    this.#answer(attempt, { kind: 'unknown', step: this.scheduler.step, notStored: false });
  }

  #read(client: Client, running: Running): void {
    const { scheduler } = this;
    const sent = scheduler.step;
    const aggregateId = `${AGGREGATE_TYPE}-${scheduler.random.below(this.options.aggregates)}`;
    const attempt: Attempt = { sent, answer: undefined };
    running.waiting.add(attempt);
    client.busy = true;
    this.#onAnswer.set(attempt, () => {
      running.waiting.delete(attempt);
      client.busy = false;
    });
    const direction = scheduler.random.pick(['forward', 'backward'] as const);
    const { standby } = running;
    running.task.first
      .events({ aggregateId, fromVersion: undefined, toVersion: undefined, limit: 10_000, direction })
      .then(
        ({ events }) => {
          if (standby) this.problems.push(`8: ${running.process.id}, a standby, answered a read`);
          this.#readAnswered(attempt, {
            sent,
            answered: scheduler.step,
            aggregateId,
            events: direction === 'forward' ? events : [...events].reverse(),
            gone: false,
          });
        },
        (error: unknown) => {
          const code = error instanceof StatefoldError ? error.code : undefined;
          const [missing, gone] = [code === 'NOT_FOUND', code === 'GONE'];
          if (missing || gone)
            this.#readAnswered(attempt, { sent, answered: scheduler.step, aggregateId, events: undefined, gone });
          else this.#unknown(running, attempt);
        },
      );
  }

  #readAnswered(attempt: Attempt, read: Read): void {
    if (this.#onAnswer.has(attempt)) this.reads.push(read);
    this.#unknown(undefined as never, attempt);
  }
}
