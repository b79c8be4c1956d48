import type { ProjectionUnit, State } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';
import type { Fault, StoredCommit } from '../core/event.js';
import { READ_BYTES } from '../core/reads.js';
import { timedSlice } from '../core/slices.js';
import type { ProjectionReleaseValue, ProjectionSwapValue } from '../core/records.js';
import { inputOffset } from '../feed/inputs.js';
import type { ProjectionSource } from '../projections/projection-source.js';
import { commitsBetween, ProjectionBatch, type FoldedKeys } from '../projections/projection-fold.js';
import type { Effect } from '../projections/projection-unit.js';
import type { Bench } from './scratch-runner.js';

export interface ProjectionRefoldOptions {
  readonly bench: Bench;
  readonly source: ProjectionSource;
  readonly units: readonly ProjectionUnit[];
  /** Keys whose states are folded; all others are passed over. */
  readonly wanted: (key: string) => boolean;
  /** Most keys, of all classes together, and most bytes of their states: past either no further key is begun. */
  readonly maxKeys: number;
  readonly maxBytes: number;
  /** Whose retries and skips are done again; undefined: of code that has had none. */
  readonly releasesOf?: { readonly projectionId: string; readonly revision: number };
}

export interface RefoldedKey {
  readonly unit: number;
  readonly key: string;
  readonly state: State;
  readonly fault: Fault | undefined;
  /** Of the event that stopped it, in the tenant's order. */
  readonly stoppedAt: number;
}

const EVENTS_PER_BATCH = 1000;
/** Keys that are looked at together: as many of them as there is time for are compared in one go, while no event is folded, here and live. */
const COMPARED = 250;

/** A projection that is folded again from the tenant's first event, as far as its live one is. */
export class ProjectionRefold implements FoldedKeys<ProjectionUnit> {
  readonly reply = 'last';
  readonly #options: ProjectionRefoldOptions;
  readonly #states = new Map<string, RefoldedKey>();
  #bytes = 0;
  #full = false;
  /** Of the projection, whose releases are done again; the one that was live at this place; and those of which some was passed over. */
  readonly #revisions = new Set<number>();
  #live: number | undefined;
  readonly #passedOver = new Set<number>();
  /** Next place to fold. */
  #position = 0;
  events = 0;

  constructor(options: ProjectionRefoldOptions) {
    this.#options = options;
    if (options.releasesOf !== undefined) this.#revisions.add(options.releasesOf.revision);
  }

  /** Undefined: as far as the live one. */
  get reached(): string | undefined {
    const end = this.#options.source.position();
    return this.#position < end
      ? `at record ${this.#position} of the ${end} of the tenant's history: nothing was compared`
      : undefined;
  }

  /** Some keys that were wanted were left out: there are more than may be. */
  get full(): boolean {
    return this.#full;
  }

  get keys(): readonly RefoldedKey[] {
    return [...this.#states.values()];
  }

  state(unit: number, key: string): RefoldedKey | undefined {
    return this.#states.get(nameOf(unit, key));
  }

  /** Folds all that the live projections have folded. @throws DeadlinePassedError */
  async catchUp(): Promise<void> {
    while (this.#position < this.#options.source.position()) await this.#step();
  }

  /** Calls `compare` for each while both are of the same place: what is stored is what the events up to there made. @throws DeadlinePassedError */
  async aligned<T>(entries: Iterable<T> | AsyncIterable<T>, compare: (entry: T) => void): Promise<void> {
    let some: T[] = [];
    const compareSome = async (): Promise<void> => {
      const { bench, source } = this.#options;
      for (let at = 0; at < some.length;) {
        await bench.breathe();
        for (let half = source.whole(); half !== undefined || this.#position < source.position(); half = source.whole())
          await (half ?? this.#step());
        at = eventLoop.slice('pages', () => timedSlice(some, at, compare));
      }
      some = [];
    };
    for await (const entry of entries) if (some.push(entry) >= COMPARED) await compareSome();
    if (some.length > 0) await compareSome();
  }

  async #step(): Promise<void> {
    const { source } = this.#options;
    const end = source.position();
    const { items: inputs, end: next } = await source.inputs.read(this.#position, { bytes: READ_BYTES });
    if (next === this.#position) throw notHere();
    let commits: StoredCommit[] = [];
    for (const input of inputs) {
      const offset = inputOffset(input);
      if (offset < this.#position || offset >= end) continue;
      if (input.kind === 'commit') commits.push(input.commit);
      else if (input.kind === 'control' && input.control.kind === 'ProjectionRelease') {
        await this.#foldAll(commits);
        commits = [];
        await this.#release(input.control.value, offset);
      } else if (
        input.kind === 'control' &&
        input.control.kind === 'ProjectionSwap' &&
        this.#continues(input.control.value)
      )
        return this.#restart();
    }
    await this.#foldAll(commits);
    this.#position = Math.min(next, end);
  }

  /** A revision that was revived goes on from the states of the one before, with what was released there. True: some of that was passed over. */
  #continues({ projectionId, revision, cause }: ProjectionSwapValue): boolean {
    if (projectionId !== this.#options.releasesOf?.projectionId) return false;
    const before = this.#live;
    this.#live = revision;
    if (cause !== 'revive' || before === undefined || !this.#revisions.has(revision) || this.#revisions.has(before))
      return false;
    this.#revisions.add(before);
    return this.#passedOver.has(before);
  }

  #restart(): void {
    for (const { id } of this.#options.units) this.#options.bench.forget(id);
    this.#states.clear();
    this.#passedOver.clear();
    [this.#bytes, this.#full, this.#position, this.#live] = [0, false, 0, undefined];
  }

  async #foldAll(commits: readonly StoredCommit[]): Promise<void> {
    const { bench, units } = this.#options;
    for (const batch of ProjectionBatch.of(commits, EVENTS_PER_BATCH)) {
      for (const effect of await batch.fold(bench, units, this)) this.#take(effect, effect.unitIndex);
      this.events += batch.events.length;
    }
  }

  /** The key goes on from the event that stopped it, or from the one behind it, up to the release: as it did live. */
  async #release(
    { projectionId, revision, className, key, eventId, mode }: ProjectionReleaseValue,
    place: number,
  ): Promise<void> {
    const { bench, units, source, releasesOf } = this.#options;
    const index = units.findIndex((unit) => unit.className === className);
    const unit = units[index];
    const held = this.#states.get(nameOf(index, key));
    if (releasesOf?.projectionId !== projectionId) return;
    if (!this.#revisions.has(revision)) return void this.#passedOver.add(revision);
    if (unit === undefined || held?.fault?.eventId !== eventId) return;
    // Of a name of its own: nothing of other keys is remembered.
    const apart = { ...unit, id: `${unit.id}@release` };
    this.#states.set(nameOf(index, key), { ...held, fault: undefined });
    let begun = false;
    const keys: FoldedKeys<ProjectionUnit> = {
      reply: this.reply,
      stateOf: (_, asked) =>
        asked === key ? { state: this.state(index, key)?.state ?? null, faulted: false } : PASSED_OVER,
    };
    reading: for await (const commits of commitsBetween(source.inputs, held.stoppedAt, place, READ_BYTES))
      for (const whole of ProjectionBatch.of(commits, EVENTS_PER_BATCH)) {
        const batch = begun ? whole : whole.startingAt(eventId, mode === 'skip');
        if (batch === undefined) continue;
        begun = true;
        bench.forget(apart.id);
        for (const effect of await batch.fold(bench, [apart], keys)) if (effect.key === key) this.#take(effect, index);
        if (this.state(index, key)?.fault !== undefined) break reading;
      }
    // What the runner has of the key says that it stands.
    bench.forget(unit.id);
  }

  /** A key that isn't wanted counts as one that stopped: its events are passed over. */
  stateOf(of: ProjectionUnit, key: string): { readonly state: State; readonly faulted: boolean } {
    const unit = this.#options.units.indexOf(of);
    const known = this.#states.get(nameOf(unit, key));
    if (known !== undefined) return { state: known.state, faulted: known.fault !== undefined };
    const { wanted, maxKeys, maxBytes } = this.#options;
    if (!wanted(key)) return PASSED_OVER;
    this.#full ||= this.#states.size >= maxKeys || this.#bytes >= maxBytes;
    if (this.#full) return PASSED_OVER;
    this.#states.set(nameOf(unit, key), { unit, key, state: null, fault: undefined, stoppedAt: 0 });
    return { state: null, faulted: false };
  }

  #take({ key, state, fault, halted, commit }: Effect<ProjectionUnit>, unit: number): void {
    const name = nameOf(unit, key);
    const before = this.#states.get(name);
    if (before === undefined || halted) return;
    this.#bytes += (state?.length ?? 0) - (before.state?.length ?? 0);
    this.#states.set(name, { unit, key, state, fault, stoppedAt: fault === undefined ? 0 : commit.offset });
  }
}

const notHere = (): StatefoldError =>
  new StatefoldError('UNAVAILABLE', 'a part of the history is not here yet; send the request again');

const PASSED_OVER = { state: null, faulted: true };
const nameOf = (unit: number, key: string): string => `${unit}\u0000${key}`;
