import type { Fault, StoredEvent } from '../core/event.js';
import type { PackedSources } from './packed-sources.js';

/**
 * The port to compiled tenant code. Whatever the code does (throws, hangs, crashes its process, answers garbage) comes back
 * as a value: a call rejects only when the host is closed, or cannot start the process at all (`UNAVAILABLE`).
 */
export interface CodeHost {
  compile(request: CompileRequest): Promise<CompileResult>;
  /** The tenant's runner. Its process starts with the first call and is stopped when idle. */
  runner(tenantId: string): Runner;
  /** Ends the tenant's process and forgets its artefacts. */
  dispose(tenantId: string): Promise<void>;
  close(): Promise<void>;
}

export interface CompileRequest {
  /** Whose code it is: compilations of a tenant are one after the other, tenants take turns. */
  readonly tenantId?: string;
  readonly kind: 'reducer' | 'projection';
  /** Of somebody who waits for it: past so many milliseconds without its turn it is refused, RATE_LIMITED. It waits as long as it takes unless given. */
  readonly waitMs?: number;
  /** A function is called when it is their turn, so that what waits takes no memory. Its rejection is that of the compilation. */
  readonly sources: PackedSources | (() => Promise<PackedSources>);
}

export interface SourceText {
  /** As in the archive, with `/`. */
  readonly path: string;
  /** A long one may be in pieces, none of which ends within a character: as one text it would be looked at in one go again and again. */
  readonly text: string | readonly string[];
}

export interface Diagnostic {
  readonly severity: 'error' | 'warning';
  /** e.g. `CS1002`, `SF0001`. */
  readonly code: string;
  readonly message: string;
  readonly file: string | null;
  /** 1-based. */
  readonly line: number | null;
  readonly column: number | null;
}

export interface Discovered {
  /** Namespace-qualified. */
  readonly className: string;
  readonly stateTypeName: string;
  readonly kind: 'reducer' | 'projection';
  /** Reducers only, resolved from `[AggregateType]` or the class's name. */
  readonly aggregateType?: string;
}

export type CompileResult =
  | {
      readonly ok: true;
      readonly assembly: Buffer;
      readonly discovered: readonly Discovered[];
      /** JSON of a `StateTypes` (`code-host/state-types.ts`): what the states of its classes are. */
      readonly stateTypes: Buffer;
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly ok: false; readonly compilationError: string; readonly diagnostics: readonly Diagnostic[] };

/** A class of an artefact, as the runner addresses it. */
export interface Unit {
  readonly artefactId: string;
  readonly className: string;
}

/** An event as tenant code gets it; its bytes go through unparsed. */
export type HostEvent = StoredEvent;

/** A state as JSON bytes; null: the code gave none. */
export type State = Buffer | null;

export interface FoldItem {
  readonly unit: Unit;
  readonly aggregateId: string;
  /** Version of the state that the events are folded onto; 0: none yet. */
  readonly baseVersion: number;
  /** Called when the runner does not hold the state at `baseVersion`. */
  readonly baseState: () => State;
  readonly events: readonly HostEvent[];
  /** Versions after which the state is asked for, ascending; the last event's is always answered. */
  readonly stateAt: readonly number[];
  /** Asked while events are tried one by one: true ends the item before the next one, without a fault. */
  readonly halted?: () => boolean;
}

export interface FoldOutcome {
  /** One a version of `stateAt` that was reached, then the last; in order. */
  readonly states: readonly { readonly version: number; readonly state: State }[];
  /** Set when an event stopped the fold; `states` then ends with the last good version. */
  readonly fault?: Fault;
  /** The item's `halted` ended it: the events past the last of `states` were not folded. */
  readonly halted?: true;
}

/** One projection class to be fed. `id` keeps the states of generations apart: `<projectionId>@<revision>`. */
export interface ProjectionUnit extends Unit {
  readonly id: string;
}

export interface ProjectRequest {
  readonly units: readonly ProjectionUnit[];
  readonly events: readonly HostEvent[];
  /** The state of a key that the runner does not hold; `faulted` keys park their events. Asked once a key and batch at most. */
  readonly stateOf: (unit: number, key: string) => { readonly state: State; readonly faulted: boolean };
  /** `each`: a change for every event and key whose state's bytes changed. `last`: only the state of each touched key after the batch. */
  readonly reply: 'each' | 'last';
  /** Asked while events are tried one by one: true ends the feeding of the unit, which a change with outcome `halted` tells. */
  readonly halted?: (unit: number) => boolean;
}

export interface ProjectChange {
  /** Indices into the request's lists. With `reply: 'last'`: of the last event that touched the key. */
  readonly event: number;
  readonly unit: number;
  readonly key: string;
  /** `changed`: state after the event. `faulted`: the event threw, state is the last good one. `parked`: the key was faulted before. `halted`: the unit was not fed, or not wholly, from this event on; no key, no state. */
  readonly outcome: 'changed' | 'faulted' | 'parked' | 'halted';
  readonly state: State;
  readonly fault?: Fault;
}

export interface Runner {
  /** Makes the classes of an artefact callable; kept over restarts of the process until unloaded. */
  load(artefactId: string, assembly: Buffer): void;
  has(artefactId: string): boolean;
  unload(artefactId: string): void;
  /** Items are independent (no aggregate twice for one unit); outcomes in their order. Calls are served in order. */
  fold(items: readonly FoldItem[]): Promise<FoldOutcome[]>;
  /** Events in order; changes ordered by event, unit, then the order of the keys that the code gave. */
  project(request: ProjectRequest): Promise<ProjectChange[]>;
  /** Forgets cached states of the unit id (projection generations) or of all; the next call asks for them again. */
  forget(unitId?: string): void;
}
