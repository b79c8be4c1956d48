import { StatefoldError } from '../../core/errors.js';
import { inSlices, mapped } from '../../core/slices.js';
import type {
  FoldItem,
  FoldOutcome,
  HostEvent,
  ProjectChange,
  ProjectionUnit,
  ProjectRequest,
  Runner,
  Unit,
} from '../code-host.js';
import { Isolation, type IsolationHost } from './isolation.js';
import type { ResolvedOptions, Strike } from './options.js';
import { foldExchange, foldOutcome, projectChange, projectExchange } from './runner-calls.js';
import type { PoolMember, RunnerPool } from './runner-pool.js';
import { CLOSED, eventName, type Exchange, IDLE, RunnerFailure, RunnerSession, YIELDED } from './runner-session.js';
import { unitIdOf } from './unit-id.js';

/** Requests that are sent ahead: the next is encoded and on its way while the runner is at one. */
const AHEAD = 2;

/** One call of the port: how it is tried as a whole, and how piece by piece. */
interface Call {
  readonly attempt: () => Promise<unknown>;
  readonly isolate: () => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Attempted {
  readonly call: Call;
  readonly outcome: Promise<{ readonly value: unknown } | { readonly error: unknown }>;
}

/** The tenant's process and the calls that wait for it. What goes wrong in it is found out here and answered as outcomes. */
export class DotnetRunner implements Runner, PoolMember {
  readonly #tenantId: string;
  readonly #options: ResolvedOptions;
  readonly #pool: RunnerPool;
  readonly #artefacts = new Map<string, Buffer>();
  readonly #isolation: Isolation;
  readonly #waiting: Call[] = [];
  readonly #underWay: Attempted[] = [];
  #session: RunnerSession | undefined;
  #serving = false;
  #isolating = false;
  /** It has a place for a process. */
  #placed = false;
  /** The place is another's when what is under way has ended. */
  #yielding = false;
  /** Units of which one broke the protocol, until that one is found. */
  #suspects: readonly Unit[] = [];
  #closed = false;
  #idle: NodeJS.Timeout | undefined;

  constructor(tenantId: string, options: ResolvedOptions, pool: RunnerPool) {
    this.#tenantId = tenantId;
    this.#options = options;
    this.#pool = pool;
    const host: IsolationHost = {
      run: (units, exchange) => this.#run(units, exchange),
      now: () => options.clock.now(),
      onStrike: (unit, message) => this.#strike(unit, message),
      eventDeadlineMs: options.eventDeadlineMs,
      maxStateBytes: options.maxStateBytes,
    };
    this.#isolation = new Isolation(host);
  }

  load(artefactId: string, assembly: Buffer): void {
    this.#artefacts.set(artefactId, assembly);
    this.#session?.unload(artefactId);
  }

  has(artefactId: string): boolean {
    return this.#artefacts.has(artefactId);
  }

  unload(artefactId: string): void {
    this.#artefacts.delete(artefactId);
    this.#session?.unload(artefactId);
  }

  forget(unitId?: string): void {
    this.#session?.forget(unitId ?? '');
  }

  fold(items: readonly FoldItem[]): Promise<FoldOutcome[]> {
    if (items.length === 0) return Promise.resolve([]);
    const { maxStateBytes, clock } = this.#options;
    const deadlineMs = this.#deadlineOf(items.reduce((sum, item) => sum + item.events.length, 0));
    const units = items.map((item) => item.unit);
    return this.#submit(
      units,
      () => items.flatMap((item) => item.events),
      async () => {
        const folded = await this.#run(units, foldExchange(items, deadlineMs, maxStateBytes));
        return folded.map((one, index) => foldOutcome(items[index] as FoldItem, one, clock.now()));
      },
      () => this.#isolation.fold(items),
    );
  }

  project(request: ProjectRequest): Promise<ProjectChange[]> {
    if (request.events.length === 0 || request.units.length === 0) return Promise.resolve([]);
    const { maxStateBytes, clock } = this.#options;
    const deadlineMs = this.#deadlineOf(request.events.length);
    return this.#submit(
      request.units,
      () => request.events,
      async () => {
        const changes = await this.#run(
          request.units,
          projectExchange(request, request.stateOf, deadlineMs, maxStateBytes),
        );
        return inSlices(mapped(changes, (change) => projectChange(request, change, clock.now())));
      },
      () => this.#isolation.project(request),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#idle);
    for (const call of this.#waiting.splice(0)) call.reject(closedError());
    this.#pool.cancel(this, closedError());
    await this.#session?.stop(CLOSED);
    this.#placed = false;
    this.#pool.release(this);
  }

  get pid(): number | undefined {
    return this.#session?.alive === true ? this.#session.pid : undefined;
  }

  get busyMs(): number {
    return this.#session?.busyMs ?? 0;
  }

  async evict(): Promise<void> {
    this.#placed = false;
    clearTimeout(this.#idle);
    await this.#session?.stop(IDLE);
  }

  exceeded(reason: string, leftBehind: boolean): void {
    const { observer } = this.#options;
    const session = this.#session;
    if (session?.alive !== true) return;
    const units = artefactsOf(session.units);
    const atWork = session.busy;
    session.exceeded(reason);
    observer.onExceeded?.({ role: 'runner', tenantId: this.#tenantId, reason });
    // While events are tried alone, what ends twice is struck for it, and of several artefacts the guilty one is looked for in that
    // way. What one has left behind may show with none of them: then all have a strike.
    if (this.#isolating) return;
    if (units.length === 1 || (leftBehind && !atWork)) for (const unit of units) this.#strike(unit, reason);
    else if (leftBehind) this.#suspects = units;
  }

  /** Its process was ended for what it said. Of several artefacts the guilty one is looked for, where events are tried again. */
  #breached(units: readonly Unit[], wasAsked: boolean, message: string): void {
    const blamed = [...new Map(units.map((unit) => [unitIdOf(unit), unit])).values()];
    if (blamed.length > 1 && wasAsked) this.#suspects = blamed;
    else for (const unit of blamed) this.#strike(unit, message);
  }

  #strike(unit: Unit | ProjectionUnit, message: string): void {
    this.#suspects = [];
    const { logger, observer } = this.#options;
    const strike = this.#strikeOf(unit, message);
    logger.warn(strike, 'tenant code was stopped');
    observer.onStrike?.(strike);
  }

  #strikeOf(unit: Unit | ProjectionUnit, message: string): Strike {
    const { artefactId, className } = unit;
    return { tenantId: this.#tenantId, artefactId, unitId: unitIdOf(unit), className, message };
  }

  /** What the events may take each, up to the bound of a batch: a small batch that hangs is found out early. */
  #deadlineOf(events: number): number {
    const { batchDeadlineMs, eventDeadlineMs } = this.#options;
    return Math.max(eventDeadlineMs, Math.min(batchDeadlineMs, events * eventDeadlineMs));
  }

  #submit<T>(
    units: readonly Unit[],
    events: () => readonly HostEvent[],
    attempt: () => Promise<T>,
    isolate: () => Promise<T>,
  ): Promise<T> {
    if (this.#closed) return Promise.reject(closedError());
    const answer = new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        attempt: () => (this.#ends(units) > 0 ? Promise.reject(DEADLY) : attempt()),
        isolate: async () => (await this.#haltDeadly(units), isolate()),
        resolve: resolve as (value: unknown) => void,
        reject,
      });
      if (this.#serving) this.#sendAhead();
      else void this.#serve();
    });
    if (this.#ends(units) === 0) return answer;
    return answer.then((value) => {
      this.#options.marks?.passed(this.#tenantId, events().map(eventName));
      return value;
    });
  }

  /** How many processes have ended over what one of them answered. */
  #ends(units: readonly Unit[]): number {
    return this.#options.marks?.deaths(this.#tenantId, units.map(unitIdOf)).deaths ?? 0;
  }

  /** What ended the service a second time, and event by event, is not run any more. */
  async #haltDeadly(units: readonly Unit[]): Promise<void> {
    const { marks, observer } = this.#options;
    const found = marks?.deaths(this.#tenantId, units.map(unitIdOf));
    if (found === undefined || found.deaths < 2) return;
    for (const unit of units.filter((one) => found.units.includes(unitIdOf(one))))
      await observer.halt?.(this.#strikeOf(unit, 'the service ended twice while it worked off what it answered'));
    marks?.forget(this.#tenantId);
  }

  #sendAhead(): void {
    while (this.#placed && !this.#yielding && !this.#isolating && this.#underWay.length < AHEAD) {
      const call = this.#waiting.shift();
      if (call === undefined) return;
      const outcome = call.attempt().then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      );
      this.#underWay.push({ call, outcome });
    }
  }

  /** Takes the answers in the order of the calls. */
  async #serve(): Promise<void> {
    this.#serving = true;
    clearTimeout(this.#idle);
    this.#placed &&= this.#pool.busy(this);
    while (this.#waiting.length > 0 || this.#underWay.length > 0) {
      if (!this.#placed && !(await this.#place())) break;
      this.#sendAhead();
      const head = this.#underWay[0];
      if (head === undefined) continue;
      const outcome = await head.outcome;
      this.#underWay.shift();
      if ('value' in outcome) head.call.resolve(outcome.value);
      else await this.#recover(head.call, outcome.error);
      this.#yielding ||= this.#waiting.length > 0 && this.#pool.mustYield(this);
      if (this.#yielding && this.#underWay.length === 0) await this.#yield();
    }
    this.#serving = false;
    if (this.#closed) return;
    if (this.#session?.alive !== true) this.#release();
    else {
      this.#pool.idle(this);
      if (this.#placed) this.#idle = setTimeout(() => this.#pool.retire(this), this.#options.idleMs).unref();
    }
  }

  /** False: it was closed meanwhile. */
  async #place(): Promise<boolean> {
    try {
      await this.#pool.acquire(this);
    } catch {
      return false;
    }
    return (this.#placed = true);
  }

  /** Others wait: it goes to the end of the line. */
  async #yield(): Promise<void> {
    await this.#session?.stop(YIELDED);
    this.#yielding = false;
    this.#release();
  }

  #release(): void {
    this.#placed = false;
    this.#pool.release(this);
  }

  async #recover(call: Call, error: unknown): Promise<void> {
    this.#isolating = true;
    // What was sent behind it has failed with it, unless the process lives: then its answers are on their way.
    const behind = this.#underWay.splice(0);
    const outcomes = await Promise.all(behind.map(({ outcome }) => outcome));
    try {
      // One that starved is fed event by event, of which each is through sooner.
      if (!(error instanceof RunnerFailure) || error.kind === 'start') throw error;
      call.resolve(await this.#again(call, error));
    } catch (failure) {
      call.reject(this.#asError(failure));
    }
    // It showed with none of them alone: whichever it was, all have a strike.
    if (error instanceof RunnerFailure) for (const unit of this.#suspects) this.#strike(unit, error.message);
    const again: Call[] = [];
    outcomes.forEach((outcome, index) => {
      const { call: next } = behind[index] as Attempted;
      if ('value' in outcome) next.resolve(outcome.value);
      else again.push(next);
    });
    if (this.#closed) for (const next of again) next.reject(closedError());
    else this.#waiting.unshift(...again);
    this.#isolating = false;
  }

  /** A process that someone else killed says nothing of the batch: once more as a whole. */
  async #again(call: Call, failure: RunnerFailure): Promise<unknown> {
    if (failure.killedFromOutside) {
      try {
        return await call.attempt();
      } catch (error) {
        if (!(error instanceof RunnerFailure) || error.kind === 'start') throw error;
      }
    }
    return await call.isolate();
  }

  #asError(failure: unknown): unknown {
    if (this.#closed) return closedError();
    if (!(failure instanceof RunnerFailure)) return failure;
    return new StatefoldError(
      'UNAVAILABLE',
      failure.kind === 'starved'
        ? `Others keep the tenant's code from the processors (${failure.message}).`
        : `The process of the tenant's code could not be started (${failure.message}).`,
    );
  }

  #run<T>(units: readonly Unit[], exchange: Exchange<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closedError());
    if (this.#session?.alive !== true) {
      const session = new RunnerSession(this.#tenantId, this.#options, (ended, breach) => {
        if (breach !== undefined) this.#breached(ended.units, ended.busy, breach);
        if (this.#session === ended) this.#session = undefined;
        // It ended by itself, without a request: one that is ended for its place gives that back when it is through.
        if (this.#placed && !this.#serving) this.#release();
      });
      this.#session = session;
      void session.up.then(() => this.#pool.started(this));
    }
    for (const { artefactId } of units) {
      if (this.#session.has(artefactId)) continue;
      const assembly = this.#artefacts.get(artefactId);
      if (assembly === undefined)
        return Promise.reject(new StatefoldError('UNAVAILABLE', `The artefact ${artefactId} is not loaded.`));
      this.#session.load(artefactId, assembly);
    }
    return this.#session.exchange(units, exchange);
  }
}

/** One unit of each artefact. */
const artefactsOf = (units: readonly Unit[]): Unit[] => [
  ...new Map(units.map((unit) => [unit.artefactId, unit])).values(),
];

const DEADLY = new RunnerFailure('ended', 'the service ended over its answer');

const closedError = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'The code host is closed.');
