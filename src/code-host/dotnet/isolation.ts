import type {
  FoldItem,
  FoldOutcome,
  HostEvent,
  ProjectChange,
  ProjectionUnit,
  ProjectRequest,
  State,
  Unit,
} from '../code-host.js';
import { foldExchange, foldOutcome, projectChange, projectExchange, faultOf, type StateOf } from './runner-calls.js';
import type { ProjectedChange, Reply } from './runner-codec.js';
import { type Exchange, RunnerFailure } from './runner-session.js';

/** What the isolation needs of the runner around it. */
export interface IsolationHost {
  /** Runs one exchange on a live process, starting one when there is none. @throws RunnerFailure */
  run<T>(units: readonly Unit[], exchange: Exchange<T>): Promise<T>;
  now(): number;
  onStrike(unit: Unit, message: string): void;
  readonly eventDeadlineMs: number;
  readonly maxStateBytes: number;
}

/**
 * Feeds the events of a batch that ended its process, or overran, one by one, each with a deadline of its own: so the one that
 * does it alone is found, its aggregate or key stops there, and everything else goes on.
 */
export class Isolation {
  readonly #host: IsolationHost;

  constructor(host: IsolationHost) {
    this.#host = host;
  }

  async fold(items: readonly FoldItem[]): Promise<FoldOutcome[]> {
    const outcomes: FoldOutcome[] = [];
    for (const item of items) outcomes.push(await this.#foldItem(item));
    return outcomes;
  }

  async #foldItem(item: FoldItem): Promise<FoldOutcome> {
    const wanted = new Set(item.stateAt);
    const states: { version: number; state: State }[] = [];
    let version = item.baseVersion;
    let state: State | undefined = version === 0 ? null : undefined;
    // Asked for once at most, and only when the runner lacks it.
    const current = (): State => (state === undefined ? (state = item.baseState()) : state);
    for (const event of item.events) {
      if (item.halted?.() === true) {
        if (states.at(-1)?.version !== version) states.push({ version, state: current() });
        return { states, halted: true };
      }
      const one: FoldItem = { ...item, baseVersion: version, baseState: current, events: [event], stateAt: [] };
      const outcome = await this.#foldOne(one, event);
      if (outcome.fault !== undefined) {
        if (states.at(-1)?.version !== version) states.push({ version, state: current() });
        return { states, fault: outcome.fault };
      }
      ({ version } = event);
      state = outcome.states.at(-1)?.state ?? null;
      if (wanted.has(version)) states.push({ version, state });
    }
    if (states.at(-1)?.version !== version) states.push({ version, state: current() });
    return { states };
  }

  async #foldOne(item: FoldItem, event: HostEvent): Promise<FoldOutcome> {
    const { eventDeadlineMs, maxStateBytes } = this.#host;
    const folded = await this.#attempt([item.unit], foldExchange([item], eventDeadlineMs, maxStateBytes));
    if (folded instanceof RunnerFailure) {
      this.#strike(item.unit, folded);
      const failure = { message: folded.message, file: null, line: null, stopped: true as const };
      return { states: [], fault: faultOf(event, item.unit.className, failure, this.#host.now()) };
    }
    const [only] = folded;
    return only === undefined ? { states: [] } : foldOutcome(item, only, this.#host.now());
  }

  async project(request: ProjectRequest): Promise<ProjectChange[]> {
    const keys = new KeyStates(request.stateOf);
    const changes: ProjectedChange[] = [];
    const halts: ProjectChange[] = [];
    const isHalted = (unit: number): boolean => request.halted?.(unit) === true;
    let units = request.units.map((_, index) => index);
    // What was halted since the batch was tried is not fed at all.
    for (const unit of units.filter(isHalted)) halts.push({ event: 0, unit, key: '', outcome: 'halted', state: null });
    units = units.filter((unit) => !isHalted(unit));
    for (let event = 0; event < request.events.length && units.length > 0; event++) {
      for (const change of await this.#projectEvent(request, event, units, keys)) {
        keys.moveOn(change);
        changes.push({ ...change, event });
      }
      // Also what was halted in the middle of the event was not wholly fed with it.
      const halted = units.filter(isHalted);
      halts.push(...halted.map((unit) => ({ event, unit, key: '', outcome: 'halted' as const, state: null })));
      units = units.filter((unit) => !halted.includes(unit));
    }
    const told = request.reply === 'last' ? lastOfEachKey(changes) : changes;
    return [...told.map((change) => projectChange(request, change, this.#host.now())), ...halts];
  }

  async #projectEvent(
    request: ProjectRequest,
    event: number,
    units: readonly number[],
    keys: KeyStates,
  ): Promise<ProjectedChange[]> {
    const together = await this.#projectOne(request, event, units, keys, request.reply);
    if (!(together instanceof RunnerFailure)) return together;
    const changes: ProjectedChange[] = [];
    for (const unit of units) changes.push(...(await this.#projectUnit(request, event, unit, keys)));
    return changes;
  }

  async #projectUnit(
    request: ProjectRequest,
    event: number,
    unit: number,
    keys: KeyStates,
  ): Promise<ProjectedChange[]> {
    if (request.units.length > 1) {
      const alone = await this.#projectOne(request, event, [unit], keys, request.reply);
      if (!(alone instanceof RunnerFailure)) return alone;
    }
    const resolved = await this.#projectOne(request, event, [unit], keys, 'keys');
    if (resolved instanceof RunnerFailure) return [this.#stop(request, event, unit, '', keys, resolved)];
    const changes: ProjectedChange[] = [];
    for (const { key } of resolved) {
      if (request.halted?.(unit) === true) break;
      const alone = await this.#projectOne(request, event, [unit], keys, request.reply, key);
      if (alone instanceof RunnerFailure) changes.push(this.#stop(request, event, unit, key, keys, alone));
      else changes.push(...alone);
    }
    return changes;
  }

  #stop(
    request: ProjectRequest,
    event: number,
    unit: number,
    key: string,
    keys: KeyStates,
    failure: RunnerFailure,
  ): ProjectedChange {
    const { state, faulted } = keys.stateOf(unit, key);
    this.#strike(request.units[unit] as ProjectionUnit, failure);
    // Without a key the code is asked again for every event, and each that ends the process is a strike; only the first is the fault.
    if (faulted) return { event, unit, key, outcome: 'parked', state };
    return {
      event,
      unit,
      key,
      outcome: 'faulted',
      state,
      failure: { message: failure.message, file: null, line: null, stopped: true },
    };
  }

  #strike(unit: Unit, failure: RunnerFailure): void {
    // Who breaks the protocol is struck where that is seen, each time.
    if (failure.kind !== 'breach') this.#host.onStrike(unit, failure.message);
  }

  /** One event through some of the units; the changes name the units as the request does. */
  async #projectOne(
    request: ProjectRequest,
    event: number,
    indices: readonly number[],
    keys: KeyStates,
    reply: Reply,
    onlyKey = '',
  ): Promise<ProjectedChange[] | RunnerFailure> {
    const { eventDeadlineMs, maxStateBytes } = this.#host;
    const units = indices.map((index) => request.units[index] as ProjectionUnit);
    const frame = { units, events: [request.events[event] as HostEvent], reply, onlyKey };
    const stateOf: StateOf = (unit, key) => keys.stateOf(indices[unit] as number, key);
    const changes = await this.#attempt(units, projectExchange(frame, stateOf, eventDeadlineMs, maxStateBytes));
    return changes instanceof RunnerFailure
      ? changes
      : changes.map((change) => ({ ...change, event, unit: indices[change.unit] as number }));
  }

  /** A process that someone else killed says nothing of the event, nor does one that took too much after other events: once more, in a new one. */
  async #attempt<T>(units: readonly Unit[], exchange: Exchange<T>): Promise<T | RunnerFailure> {
    for (let left = 2; ; left--) {
      try {
        return await this.#host.run(units, exchange);
      } catch (error) {
        // Neither says anything of the event, nor would it a moment later.
        if (!(error instanceof RunnerFailure) || error.kind === 'start' || error.kind === 'starved') throw error;
        if (left > 1 && (error.killedFromOutside || error.exceeded)) continue;
        return error;
      }
    }
  }
}

/** The states of the keys as the batch goes on, over what the caller said they were. */
class KeyStates {
  readonly #before: StateOf;
  readonly #known = new Map<string, { state: State; faulted: boolean }>();

  constructor(before: StateOf) {
    this.#before = before;
  }

  readonly stateOf: StateOf = (unit, key) => {
    const id = `${unit}\n${key}`;
    let known = this.#known.get(id);
    if (known === undefined) this.#known.set(id, (known = { ...this.#before(unit, key) }));
    return known;
  };

  moveOn({ unit, key, state, outcome }: ProjectedChange): void {
    this.#known.set(`${unit}\n${key}`, { state, faulted: outcome !== 'changed' });
  }
}

/** What `reply: 'last'` tells: where a key stopped, what was parked, or the state after the last event that touched it. */
function lastOfEachKey(changes: readonly ProjectedChange[]): ProjectedChange[] {
  const last = new Map<string, ProjectedChange>();
  for (const change of changes) last.set(`${change.unit}\n${change.key}`, change);
  return changes.filter(
    (change) => change.outcome !== 'changed' || last.get(`${change.unit}\n${change.key}`) === change,
  );
}
