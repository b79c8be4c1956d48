import type { Diagnostic, Discovered } from '../code-host/code-host.js';
import type { Quotas } from '../core/quotas.js';
import type { Scope } from '../core/scopes.js';

/**
 * What the service knows besides events: tenants, keys, artefacts, bindings, projections, schemas of event types, webhook endpoints, accounts for SQL, secrets. Each is an entity with a
 * version of its own, kept by the fenced log of `statefold.catalog`; the fold of that log is in memory.
 */
export interface Entities {
  /** id: tenantId */
  tenant: TenantEntity;
  /** id: keyId */
  key: KeyEntity;
  /** id: reducerId */
  reducer: ReducerEntity;
  /** id: `<tenantId>/<aggregateType>` */
  binding: BindingEntity;
  /** id: projectionId */
  projection: ProjectionEntity;
  /** id: `<tenantId>/<eventType>`; of types that have a schema */
  eventType: EventTypeEntity;
  /** id: endpointId */
  endpoint: EndpointEntity;
  /** id: accountId */
  sqlAccount: SqlAccountEntity;
  /** id: a reducer's artefactId, or `<projectionId>@<revision>`; absent while nothing was held against it */
  artefact: ArtefactEntity;
  /** id: `cluster`; no tenant's */
  cluster: ClusterEntity;
}
export type EntityKind = keyof Entities;

export interface TenantEntity {
  readonly tenantId: string;
  /** Where a tenant of that id was deleted before: what this one has is stored under it too (`core/slots.ts`). */
  readonly incarnation?: string;
  readonly name: string;
  readonly createdAt: string;
  readonly partitions: number;
  /** Since then nothing of it is served, folded or sent. */
  readonly suspendedAt?: string;
  /** Events are being imported: until that has ended it is served to nobody else. */
  readonly importing?: Importing;
  /** Those that are its own; for the others the settings have the usual ones. */
  readonly quotas?: Partial<Quotas>;
  /** Shared webhook secrets, newest first, sealed (`catalog/sealing.ts`). */
  readonly webhookSecrets: readonly SealedSecret[];
}
/** An import that has begun, and has not ended. */
export interface Importing {
  readonly importId: string;
  /** ISO 8601. */
  readonly startedAt: string;
  /** Incarnations whose records, of imports that were broken off, are to be removed; '' is the one without a name. */
  readonly former: readonly string[];
  /** Nobody has looked yet whether the tenant got events of its own until it was closed; nothing of the import is stored. */
  readonly unseen?: true;
}
export interface SealedSecret {
  readonly sealed: string;
  readonly createdAt: string;
  /** Signs until then; absent on the current one. */
  readonly expiresAt?: string;
}
export interface KeyEntity {
  readonly keyId: string;
  readonly tenantId: string;
  /** Hex SHA-256 of the whole key. */
  readonly hash: string;
  /** What may be shown of it, e.g. `sf_a1b2c3d4`. */
  readonly prefix: string;
  readonly createdAt: string;
  readonly name?: string;
  /** What it may be used for; all, also what is added by later releases, unless given. */
  readonly scopes?: readonly Scope[];
  /** It is in force until then. */
  readonly expiresAt?: string;
  readonly revokedAt?: string;
}
/** A user of the read store's server, which sees the tenant's rows. */
export interface SqlAccountEntity {
  readonly tenantId: string;
  /** 16 hex digits. */
  readonly accountId: string;
  readonly name?: string;
  readonly createdAt: string;
  /** keyId of the key that asked for it. */
  readonly createdBy: string;
  /** Hex SHA-256 of its password, which is kept nowhere. */
  readonly passwordHash: string;
  /** Its deletion has begun: the server may have it still. */
  readonly deletedAt?: string;
}
export interface ArtefactFields {
  readonly tenantId: string;
  readonly createdAt: string;
  readonly compiledAt?: string;
  /** Id under which sources and assembly lie in `statefold.artefacts`. */
  readonly artefactId: string;
  readonly discovered?: readonly Discovered[];
  readonly compilationError?: string;
  readonly diagnostics?: readonly Diagnostic[];
  /** Of its sources and assembly in the log; unknown of what earlier releases stored. */
  readonly codeBytes?: number;
}
export interface ReducerEntity extends ArtefactFields {
  readonly reducerId: string;
  /** Its deletion has begun: for all but that it is gone. */
  readonly deletedAt?: string;
  readonly status: 'pending_compilation' | 'compiled' | 'failed';
}
export interface BindingEntity {
  readonly tenantId: string;
  readonly aggregateType: string;
  readonly reducerId: string;
  readonly className: string;
  readonly boundAt: string;
  /** Counts the bindings of the type, so that states of an earlier one are told apart. */
  readonly generation: number;
  /** Those before, oldest first; the last of them. */
  readonly earlier?: readonly FormerBinding[];
}
export type FormerBinding = Pick<BindingEntity, 'reducerId' | 'className' | 'boundAt' | 'generation'>;

/** One of a projection's revisions: an upload, or the code of an earlier one again. */
export interface RevisionEntity extends Omit<ArtefactFields, 'tenantId' | 'diagnostics'> {
  /** Of its code; `createdAt` is its own. */
  readonly uploadedAt: string;
  readonly revision: number;
  readonly status: 'compiling' | 'compiled' | 'failed';
  /** An upload unless given. */
  readonly cause?: 'rollback' | 'rebuild' | 'revive';
  /** The revision whose code it has again. */
  readonly of?: number;
  /** It was called off, and is not to become the live one. */
  readonly cancelledAt?: string;
}
/** Of the artefact and the revision the newest one; `createdAt` is the projection's. */
export interface ProjectionEntity
  extends ArtefactFields, Pick<RevisionEntity, 'status' | 'revision' | 'cause' | 'of' | 'cancelledAt'> {
  readonly projectionId: string;
  /** Of the newest revision, where it is not the first. */
  readonly revisedAt?: string;
  readonly uploadedAt?: string;
  /** The revisions before, oldest first; the last of them. */
  readonly earlier?: readonly RevisionEntity[];
  readonly sse: boolean;
  /** As releases before endpoints were entities have stored the first one; it is read, and not written any more. */
  readonly webhook?: Omit<EndpointEntity, 'tenantId' | 'endpointId' | 'source'>;
}

/** All code that it names, that of revisions too; one that shares its code with another is there as often. */
export const artefactsOf = (entity: ReducerEntity | ProjectionEntity): readonly string[] => [
  entity.artefactId,
  ...('earlier' in entity ? (entity.earlier ?? []).map(({ artefactId }) => artefactId) : []),
];

/** Code that the entity named before, and does not name any more. */
export function artefactsDropped<E extends ReducerEntity | ProjectionEntity>(
  previous: E,
  value: E | undefined,
): Set<string> {
  const dropped = new Set(artefactsOf(previous));
  for (const artefactId of value === undefined ? [] : artefactsOf(value)) dropped.delete(artefactId);
  return dropped;
}

/** The schema that the data of a type's events must fit. */
export interface EventTypeEntity {
  readonly tenantId: string;
  readonly eventType: string;
  /** Counts the schemas that it had, since it had none. */
  readonly schemaVersion: number;
  /** JSON text of a JSON Schema (2020-12). */
  readonly schema: string;
  readonly changedAt: string;
}

/** Where webhooks of a projection or of all events go: a URL, a secret of its own, or both. */
export interface EndpointEntity {
  readonly tenantId: string;
  readonly endpointId: string;
  /** What it is told of. */
  readonly source: EndpointSource;
  /** Undefined: nothing is sent. */
  readonly url?: string;
  readonly isolated: boolean;
  /** Isolated secrets, newest first; empty when shared. */
  readonly secrets: readonly SealedSecret[];
  /** It gets what its source has past this sequence or position: the last one when it was added. All unless given. */
  readonly since?: number;
  /** Set when the endpoint answered 410, or had failed for too long. */
  readonly disabledAt?: string;
  /** Why; absent: it answered 410. */
  readonly disabledFor?: 'failures';
  /** Its tenant has paused it then. */
  readonly pausedAt?: string;
  /** Absent of those that earlier releases made. */
  readonly createdAt?: string;
  readonly description?: string;
  /** It gets messages of these keys alone: state keys of a projection, aggregate ids of the feed. */
  readonly keys?: readonly string[];
  /** Headers of its owner's, which go with each attempt. Their values may be credentials: `sealed` is the JSON of name and value. */
  readonly headers?: { readonly sealed: string; readonly names: readonly string[] };
  /** Most attempts a second. */
  readonly ratePerSecond?: number;
}

/** The changes of one projection, or the events of the tenant that pass the filter. */
export type EndpointSource = { readonly projectionId: string } | { readonly feed: EventFilter };

/** Undefined members let all pass; several are "or" within one and "and" between them. */
export interface EventFilter {
  readonly aggregateTypes?: readonly string[];
  readonly eventTypes?: readonly string[];
}

/** What was held against the code of a reducer, or of a revision of a projection. */
export interface ArtefactEntity {
  readonly tenantId: string;
  readonly unitId: string;
  /** Oldest first: how its code ended its process, overran its deadline, or took too much. */
  readonly strikes: readonly { readonly at: string; readonly className: string; readonly message: string }[];
  /** Since then no process runs its code. */
  readonly faultedAt?: string;
  /** How often it was revived. */
  readonly revivals?: number;
}

/** What all processes on one log must agree on. */
export interface ClusterEntity {
  readonly tenantId: '';
  /** A text sealed with the master key. */
  readonly sealed: string;
  /** Ids of the schemas that records are written with. */
  readonly schemaIds: Readonly<Record<string, number>>;
}

export interface Entry<K extends EntityKind> {
  readonly id: string;
  /** 1 for the first; a write names the version that it replaces, 0 to create (a tenant of an id that was used: the version of its deletion). */
  readonly version: number;
  readonly value: Entities[K];
}

/** What became of an entity: its kind says what the values are. */
export type CatalogChange<K extends EntityKind = EntityKind> = {
  [Kind in K]: {
    readonly kind: Kind;
    readonly id: string;
    /** Undefined: deleted. */
    readonly value: Entities[Kind] | undefined;
    readonly previous: Entities[Kind] | undefined;
  };
}[K];

export interface Catalog {
  get<K extends EntityKind>(kind: K, id: string): Entry<K> | undefined;
  /** The version that a write of the entity replaces: its own, or that of its deletion; 0 when there never was one. */
  versionOf(kind: EntityKind, id: string): number;
  /** Ascending by id (ids are UUIDv7 or names); of one tenant unless undefined. */
  list<K extends EntityKind>(kind: K, tenantId: string | undefined): readonly Entry<K>[];
  /** The same from the first id past `after` on, one by one: a page of it costs no more where the list is long. */
  past<K extends EntityKind>(kind: K, tenantId: string | undefined, after: string): Iterable<Entry<K>>;
  /** How many `list` would give. */
  count(kind: EntityKind, tenantId: string | undefined): number;
  /** @throws StatefoldError ALREADY_EXISTS when `expected` is not the entity's version; resolves when durable. */
  put<K extends EntityKind>(kind: K, id: string, expected: number, value: Entities[K]): Promise<void>;
  delete(kind: EntityKind, id: string, expected: number): Promise<void>;
  /** Deletes it whatever was written to it meanwhile; a missing one is no error. */
  remove(kind: EntityKind, id: string): Promise<void>;
  /**
   * Reads, makes of it what is to be there, and puts that until no other write came between; `change` gives undefined to leave it
   * as it is. Resolves with what is there then.
   */
  upsert<K extends EntityKind>(
    kind: K,
    id: string,
    change: (had: Entities[K] | undefined) => Entities[K] | undefined,
  ): Promise<Entry<K> | undefined>;
  /** The same of what is there; `change` gives undefined to leave it as it is. */
  update<K extends EntityKind>(
    kind: K,
    id: string,
    change: (value: Entities[K]) => Entities[K] | undefined,
  ): Promise<Entities[K]>;
  /** Of all entities of the tenant, as they are stored. */
  bytesOf(tenantId: string): number;
  /** The key that hashes to it, revoked ones too. */
  keyByHash(hash: string): KeyEntity | undefined;
  /** Called after each accepted change, in log order, on the same turn. */
  onChange(listener: (change: CatalogChange) => void): void;
  /** Resolves when all that any process wrote before the call is folded here; at once where this process is the only one. */
  caughtUp(): Promise<void>;
  /** Sources and assemblies, in chunks on `statefold.artefacts`. */
  readonly artefacts: ArtefactStore;
  close(): Promise<void>;
}

/** `types` describes the states of its classes; of what earlier releases compiled there is none. */
export type ArtefactPart = 'sources' | 'assembly' | 'types';

export interface ArtefactStore {
  put(artefactId: string, part: ArtefactPart, bytes: Buffer): Promise<void>;
  get(artefactId: string, part: ArtefactPart): Promise<Buffer | undefined>;
  delete(artefactId: string): Promise<void>;
}
