import type { HostEvent, ProjectChange, ProjectionUnit, ProjectRequest, State } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import { eachEvent, takeEvents, type StoredCommit } from '../core/event.js';
import type { ChangeValue } from '../core/records.js';
import { inSlices, type Sliced } from '../core/slices.js';
import type { Feed } from '../feed/feed.js';
import type { Input } from '../feed/inputs.js';
import type { InputPosition, KeyState } from '../store/partition-tables.js';
import type { Effect, RevisionUnit } from './projection-unit.js';

/*
 * The fold of projections, in all its uses: live, in builds and releases, and when history is inspected. Commits are read from the
 * tenant's one order and fed in batches; whoever folds knows the states of its keys, and takes what became of them.
 */

/** Of changes, worked off in one go. */
const SLICE = 2000;

/** Runs projections: the runner of the tenant's live code, or one apart. */
export interface ProjectionHost {
  project(request: ProjectRequest): Promise<ProjectChange[]>;
}

/** The keys of those that are fed. */
export interface FoldedKeys<U extends ProjectionUnit> {
  /** Their states after each event are wanted, or only the last ones of a batch. */
  readonly reply: ProjectRequest['reply'];
  /** A faulted key's events are parked. */
  stateOf(unit: U, key: string): { readonly state: State; readonly faulted: boolean };
  /** Asked while events are tried one by one: the code is not to be run any more. */
  isHalted?(unit: U): boolean;
}

/** Commits that are fed in one go. */
export class ProjectionBatch {
  readonly commits: readonly StoredCommit[];
  readonly events: readonly HostEvent[];
  /** By event. */
  readonly #commitOf: readonly StoredCommit[];

  constructor(commits: readonly StoredCommit[], events?: readonly HostEvent[], commitOf?: readonly StoredCommit[]) {
    this.commits = commits;
    if (events !== undefined && commitOf !== undefined) {
      this.events = events;
      this.#commitOf = commitOf;
      return;
    }
    const flat: HostEvent[] = [];
    const of: StoredCommit[] = [];
    for (const commit of commits)
      eachEvent(commit, (event) => {
        flat.push(event);
        of.push(commit);
      });
    this.events = flat;
    this.#commitOf = of;
  }

  /** Whole commits, with about so many events each time. */
  static *of(commits: readonly StoredCommit[], mostEvents: number): Generator<ProjectionBatch> {
    for (let left = commits; left.length > 0;) {
      const count = takeEvents(left, mostEvents);
      yield new ProjectionBatch(left.slice(0, count));
      left = left.slice(count);
    }
  }

  /** From the event on, or behind it; undefined where it is not among them. */
  startingAt(eventId: string, behind: boolean): ProjectionBatch | undefined {
    const at = this.events.findIndex((event) => event.eventId === eventId);
    if (at < 0) return undefined;
    const first = behind ? at + 1 : at;
    return new ProjectionBatch(this.commits, this.events.slice(first), this.#commitOf.slice(first));
  }

  /** Just that event; undefined where it is not among them. */
  only(eventId: string): ProjectionBatch | undefined {
    const at = this.events.findIndex((event) => event.eventId === eventId);
    return at < 0
      ? undefined
      : new ProjectionBatch(this.commits, this.events.slice(at, at + 1), this.#commitOf.slice(at, at + 1));
  }

  async fold<U extends ProjectionUnit>(
    host: ProjectionHost,
    units: readonly U[],
    keys: FoldedKeys<U>,
  ): Promise<Effect<U>[]> {
    return this.events.length === 0 ? [] : inSlices(this.effects(units, await this.ask(host, units, keys)));
  }

  /** What the code gives, for `effects`. */
  ask<U extends ProjectionUnit>(
    host: ProjectionHost,
    units: readonly U[],
    keys: FoldedKeys<U>,
  ): Promise<ProjectChange[]> {
    return host.project({
      units,
      events: this.events,
      reply: keys.reply,
      stateOf: (unit, key) => keys.stateOf(units[unit] as U, key),
      halted: (unit) => keys.isHalted?.(units[unit] as U) === true,
    });
  }

  /** The changes in pieces of about so many, with the commits that made them: none is of two pieces. Commits without a change go with those before. */
  *pieces(
    changes: readonly ProjectChange[],
    most: number,
  ): Generator<{
    readonly commits: readonly StoredCommit[];
    readonly changes: readonly ProjectChange[];
  }> {
    const commitAt = (i: number): StoredCommit | undefined => this.#commitOf[changes[i]?.event ?? -1];
    let [commits, first] = [this.commits, 0];
    for (let i = most; i < changes.length; i++) {
      const next = commitAt(i);
      if (i - first < most || next === undefined || next === commitAt(i - 1)) continue;
      const endIndex = commits.indexOf(next);
      yield { commits: commits.slice(0, endIndex), changes: changes.slice(first, i) };
      [commits, first] = [commits.slice(endIndex), i];
    }
    yield { commits, changes: changes.slice(first) };
  }

  /** Ascending by event. An event of a key that stood at a fault did nothing. */
  *effects<U extends ProjectionUnit>(units: readonly U[], changes: readonly ProjectChange[]): Sliced<Effect<U>[]> {
    const effects: Effect<U>[] = [];
    let seen = 0;
    for (const { unit: unitIndex, event: eventIndex, key, outcome, state, fault } of changes) {
      if (++seen % SLICE === 0) yield;
      const unit = units[unitIndex];
      const [commit, event] = [this.#commitOf[eventIndex], this.events[eventIndex]];
      if (unit === undefined || commit === undefined || event === undefined || outcome === 'parked') continue;
      const placed = fault === undefined ? undefined : { ...fault, place: commit.offset };
      effects.push({ unit, unitIndex, commit, event, key, halted: outcome === 'halted', state, fault: placed });
    }
    return effects;
  }
}

/**
 * What is to be told of effects. Numbered a projection each, from `first` on: which others are there may differ after a restart.
 */
export function* valuesOf(
  effects: readonly Effect<RevisionUnit>[],
  first: (projectionId: string, inputOffset: number) => number = () => 0,
): Sliced<ChangeValue[]> {
  const values: ChangeValue[] = [];
  const indices = new Map<string, number>();
  let last: StoredCommit | undefined;
  for (const effect of effects) {
    const { commit, unit, key } = effect;
    const { projectionId, revision, className } = unit;
    if (commit !== last) indices.clear();
    last = commit;
    const index = indices.get(projectionId) ?? first(projectionId, commit.offset);
    indices.set(projectionId, index + 1);
    values.push(
      changeOfRow({ projectionId, revision, className, key }, [commit.offset, index], null, rowAfter(effect)),
    );
    if (values.length % SLICE === 0) yield;
  }
  return values;
}

/** Commits of [from, end), read on until there. @throws StatefoldError UNAVAILABLE where a part of them is not here yet */
export async function* commitsBetween(
  inputs: Feed<Input>,
  from: number,
  end: number,
  bytes: number,
): AsyncGenerator<readonly StoredCommit[]> {
  for (let at = from; at < end;) {
    const page = await inputs.read(at, { bytes });
    if (page.end === at)
      throw new StatefoldError('UNAVAILABLE', 'a part of the history is not here yet; send the request again');
    yield commitsWithin(page.items, at, end);
    at = page.end;
  }
}

/** Those of the inputs that are commits, and lie in [from, end). */
export const commitsWithin = (inputs: readonly Input[], from: number, end: number): StoredCommit[] =>
  inputs.flatMap((input) =>
    input.kind === 'commit' && input.commit.offset >= from && input.commit.offset < end ? [input.commit] : [],
  );

/** What a key's row says, but for the sequence of its change. */
export type KeyRow = Omit<KeyState, 'sequence'>;

/** The row that an event made. */
export const rowAfter = ({ state, fault, commit, event }: Effect<ProjectionUnit>): KeyRow => ({
  state,
  fault,
  lastModified: commit.timestamp,
  origin: {
    eventId: event.eventId,
    aggregateId: event.aggregateId,
    aggregateType: event.aggregateType,
    version: event.version,
  },
});

/** The change that tells a row, made by an input. */
export const changeOfRow = (
  {
    projectionId,
    revision,
    className,
    key,
  }: {
    readonly projectionId: string;
    readonly revision: number;
    readonly className: string;
    readonly key: string;
  },
  [inputOffset, inputIndex]: InputPosition,
  cause: ChangeValue['cause'],
  { state, fault, lastModified, origin }: KeyRow,
): ChangeValue => ({
  projectionId,
  revision,
  className,
  key,
  inputOffset,
  inputIndex,
  ...origin,
  timestamp: lastModified,
  cause,
  state,
  fault: fault === undefined ? null : Buffer.from(JSON.stringify(fault)),
});
