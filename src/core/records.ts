import type { SwapCause } from './change.js';

/** Version of the rules by which every reader folds a partition; a reader that meets a claim of another version stops. */
export const FOLD_RULES = 1;
/** Likewise, of a partition whose epochs are those of another one's claims. Written after `FOLD_RULES` where both stand in a partition. */
export const GIVEN_EPOCH_RULES = 2;

/** What makes a record of a fenced partition valid or void: who wrote it, in which epoch, after which record. */
export interface Fence {
  readonly epoch: number;
  /** Id of the writing process, new at each start. */
  readonly owner: string;
  /** Unique for each attempt to write a record. */
  readonly recordId: string;
  readonly expectedOffset: number;
  /** recordId of the record before it as the writer knew it; empty where it knew none. */
  readonly previous: string;
}

export interface Claim {
  readonly rules: number;
}

/** Bodies are tagged by `kind`; `value` has the fields of the Avro record of that name. */
export type ClaimBody = { readonly kind: 'Claim'; readonly value: Claim };

/** What it has of its own goes before what the commit has. */
export interface CommitEventValue {
  readonly eventId: Buffer;
  readonly eventType: string;
  readonly data: Buffer;
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: Buffer | undefined;
}

export interface CommitValue {
  readonly commandId: string;
  readonly keyed: boolean;
  readonly requestHash: Buffer;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly baseVersion: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly correlationId: string | null;
  readonly causationId: string | null;
  readonly metadata: Buffer | null;
  readonly events: readonly CommitEventValue[];
  /** Of `events`, where it is known without decoding them. */
  readonly eventCount?: number;
  /** The ids of `events`, 16 bytes each, in their order, where they lie together: who writes them makes no view of each. */
  readonly eventIds?: Buffer;
}

/** What a transaction adds to one of its aggregates, of which none is there twice. */
export interface TransactionPartValue {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly baseVersion: number;
  readonly events: readonly CommitEventValue[];
}

/** The base version of a part whose aggregate was erased, in the record that stands in for a transaction: its events are gone. */
export const ERASED_BASE = -1;

/** Counts when every one of its parts does. */
export interface TransactionValue {
  readonly commandId: string;
  readonly keyed: boolean;
  readonly requestHash: Buffer;
  /** Milliseconds since the epoch, not before the last event of any of the aggregates. */
  readonly timestamp: number;
  readonly correlationId: string | null;
  readonly causationId: string | null;
  readonly metadata: Buffer | null;
  readonly parts: readonly TransactionPartValue[];
}

export interface ProjectionSwapValue {
  readonly projectionId: string;
  readonly revision: number;
  readonly artefactId: string;
  readonly classNames: readonly string[];
  readonly cause: SwapCause;
}

export interface ProjectionDropValue {
  readonly projectionId: string;
}

/** What is done with the event that stopped a key: it is run again, or passed over; then what was parked behind it follows. */
export type ReleaseMode = 'retry' | 'skip';

export interface ProjectionReleaseValue {
  readonly projectionId: string;
  /** Whose states are meant: of another one that is live by then nothing is released. */
  readonly revision: number;
  readonly className: string;
  readonly key: string;
  /** Of the fault: a key that another one stops by then is left alone. */
  readonly eventId: string;
  readonly mode: ReleaseMode;
  readonly commandId: string;
}

/** A reducer's process was stopped, or ended, on an event: for every reader the aggregate stands before it until a release. */
export interface ReducerFaultValue {
  readonly aggregateId: string;
  readonly artefactId: string;
  readonly className: string;
  readonly version: number;
  /** JSON text. */
  readonly fault: Buffer;
}

export interface ReducerReleaseValue {
  readonly aggregateId: string;
  /** The code that threw: of other code nothing is released. */
  readonly artefactId: string;
  readonly className: string;
  readonly version: number;
  readonly mode: ReleaseMode;
  readonly commandId: string;
}

/** From here on the aggregate counts as gone for every reader, for ever; what the log has of it is taken out by and by. */
export interface EraseValue {
  readonly aggregateId: string;
  readonly aggregateType: string;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  /** As the client gave it; it stays. */
  readonly reason: string | null;
}

/** Tombstones for all that the log had of the aggregate were written before. */
export interface ErasedValue {
  readonly aggregateId: string;
  readonly timestamp: number;
}

/** What the events topic of a tenant holds besides claims. */
export type EventsBody =
  | { readonly kind: 'Commit'; readonly value: CommitValue }
  | { readonly kind: 'Transaction'; readonly value: TransactionValue }
  | { readonly kind: 'ProjectionSwap'; readonly value: ProjectionSwapValue }
  | { readonly kind: 'ProjectionDrop'; readonly value: ProjectionDropValue }
  | { readonly kind: 'ProjectionRelease'; readonly value: ProjectionReleaseValue }
  | { readonly kind: 'ReducerFault'; readonly value: ReducerFaultValue }
  | { readonly kind: 'ReducerRelease'; readonly value: ReducerReleaseValue }
  | { readonly kind: 'Erase'; readonly value: EraseValue }
  | { readonly kind: 'Erased'; readonly value: ErasedValue };

export interface ChangeValue {
  readonly projectionId: string;
  readonly revision: number;
  readonly className: string;
  readonly key: string;
  readonly inputOffset: number;
  readonly inputIndex: number;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  readonly timestamp: number;
  readonly cause: string | null;
  readonly state: Buffer | null;
  readonly fault: Buffer | null;
  /** Of an input whose changes come in parts: no further one comes. Absent where they are all written at once, or a control makes them. */
  readonly last?: boolean;
}

/** What the changes topic of a tenant holds besides claims. */
export type ChangesBody = { readonly kind: 'Change'; readonly value: ChangeValue };

export interface EntityValue {
  readonly kind: string;
  readonly id: string;
  readonly replaces: number;
  /** JSON text; null deletes. */
  readonly value: string | null;
}

/** What the catalog topic holds besides claims. */
export type CatalogBody = { readonly kind: 'Entity'; readonly value: EntityValue };

/** What the order topic of a tenant of several partitions holds: all of the partition up to the offset, exclusive, that was not placed before, comes here. */
export type OrderBody = {
  readonly kind: 'Through';
  readonly value: { readonly partition: number; readonly through: number };
};

/** Bodies of the events topic that hold no events: they stand in the tenant's one order too. */
export type Control = Exclude<EventsBody, { kind: 'Commit' | 'Transaction' }>;

/** What the log says of faults of reducers: of one aggregate, and no input of projections. */
export type ReducerControl = Extract<EventsBody, { kind: 'ReducerFault' | 'ReducerRelease' }>;

/** What the log says of the erasure of an aggregate. */
export type Erasure = Extract<EventsBody, { kind: 'Erase' | 'Erased' }>;

export type ProjectionControl = Exclude<Control, ReducerControl | Erasure>;

export const isErasure = (control: Control): control is Erasure =>
  control.kind === 'Erase' || control.kind === 'Erased';

export const isReducerControl = (control: Control): control is ReducerControl =>
  control.kind === 'ReducerFault' || control.kind === 'ReducerRelease';
