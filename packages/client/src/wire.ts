// Made by scripts/wire-types.mjs from the service's table of routes: change that, and run the script.

export type Event = {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly eventType: string;
  readonly data: {
    readonly [member: string]: unknown;
  };
  readonly version: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  /** With include=metadata, like those that follow. */
  readonly aggregateType?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly metadata?: {
    readonly [member: string]: unknown;
  };
};

export type Fault = {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  readonly eventType?: string;
  readonly className: string;
  readonly message: string;
  /** Of the uploaded sources, where the code threw. */
  readonly file: string | null;
  readonly line: number | null;
  /** ISO 8601, UTC, with milliseconds */
  readonly at: string;
  /** The process of the code was stopped, or ended, on the event: a retry may do better. */
  readonly stopped?: true;
};

export type KeyFault = {
  readonly key: string;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  readonly eventType?: string;
  readonly className: string;
  readonly message: string;
  /** Of the uploaded sources, where the code threw. */
  readonly file: string | null;
  readonly line: number | null;
  /** ISO 8601, UTC, with milliseconds */
  readonly at: string;
  /** The process of the code was stopped, or ended, on the event: a retry may do better. */
  readonly stopped?: true;
};

export type Discovered = {
  readonly className: string;
  readonly stateTypeName: string;
  readonly kind: 'reducer' | 'projection';
  readonly aggregateType?: string;
};

export type Diagnostic = {
  readonly severity: 'error' | 'warning';
  readonly code: string;
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly column: number | null;
};

export type Source = {
  readonly path: string;
  readonly text: string;
};

export type Problem = {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code:
    | 'ALREADY_EXISTS'
    | 'AGGREGATE_TYPE_MISMATCH'
    | 'ARTEFACT_FAULTED'
    | 'BUILD_UNDER_WAY'
    | 'CROSS_PARTITION'
    | 'CURSOR_EXPIRED'
    | 'FAULT_MISMATCH'
    | 'FAULT_WITHOUT_KEY'
    | 'FORBIDDEN'
    | 'GONE'
    | 'IDEMPOTENCY_KEY_REUSED'
    | 'INSPECTION_DEADLINE'
    | 'INTERNAL'
    | 'INVALID_ARCHIVE'
    | 'INVALID_REQUEST'
    | 'METHOD_NOT_ALLOWED'
    | 'NO_BUILD'
    | 'NO_EARLIER_REVISION'
    | 'NO_REBUILD'
    | 'NO_REDUCER_BOUND'
    | 'NOT_CAUGHT_UP'
    | 'NOT_FAULTED'
    | 'NOT_FOUND'
    | 'PAYLOAD_TOO_LARGE'
    | 'PROJECTION_NOT_LIVE'
    | 'QUOTA_EXCEEDED'
    | 'RATE_LIMITED'
    | 'READ_STORE_DISABLED'
    | 'REBUILD_NOT_CANCELLABLE'
    | 'REDUCER_BOUND'
    | 'REDUCER_CLASS_AMBIGUOUS'
    | 'REDUCER_CLASS_NOT_FOUND'
    | 'REDUCER_NOT_COMPILED'
    | 'REVISION_NOT_COMPILED'
    | 'SCHEMA_VIOLATION'
    | 'SQL_NOT_ISOLATED'
    | 'SQL_REFUSED'
    | 'SSE_DISABLED'
    | 'TENANT_NOT_EMPTY'
    | 'TENANT_SUSPENDED'
    | 'UNAUTHENTICATED'
    | 'UNAVAILABLE'
    | 'UNSUPPORTED_MEDIA_TYPE'
    | 'VERSION_CONFLICT'
    | 'WEBHOOK_NOT_CONFIGURED'
    | 'WEBHOOK_SECRET_SHARED'
    | 'WEBHOOK_URL_REFUSED';
  readonly requestId: string;
  readonly retryable?: true;
  readonly errors?: readonly {
    readonly pointer: string;
    readonly message: string;
  }[];
  readonly expectedVersion?: number | ('any' | 'none' | 'exists');
  readonly currentVersion?: number;
  readonly conflicts?: readonly Event[];
  readonly oldestSequence?: number;
  readonly checks?: {
    readonly [member: string]: 'up' | 'down';
  };
  readonly [member: string]: unknown;
};

export type Process = {
  /** Where the other processes reach it. */
  readonly url: string;
  /** It is the one that answers. */
  readonly self?: true;
  /** Slots whose tenants it serves. */
  readonly owned: number;
  /** Slots of which it keeps standbys. */
  readonly standbys: number;
  /** Slots whose webhooks and streams it sends. */
  readonly notified: number;
};

export type ProcessSample = {
  /** When the time that is counted ended. */
  readonly at: string;
  readonly seconds: number;
  readonly requests: number;
  /** Requests that were answered 5xx. */
  readonly failures: number;
  readonly appends: number;
  readonly events: number;
  /** Events that reducers folded. */
  readonly folded: number;
  /** Changes of state that projections made. */
  readonly changes: number;
  readonly appendP50Ms?: number;
  readonly appendP99Ms?: number;
  readonly lagCommits: number;
  readonly residentBytes: number;
  readonly longestHoldMs: number;
  /** The ten that took most; the others are in the sums. */
  readonly tenants: readonly {
    readonly tenantId: string;
    readonly events: number;
    readonly folded: number;
    readonly changes: number;
  }[];
};

export type ReadStoreRebuild = {
  /** Until it is done, and for good where it is cancelled, the rows of before are served, and what is new comes to them. */
  readonly state: 'preparing' | 'filling' | 'swapping' | 'done' | 'cancelled';
  /** ISO 8601, UTC, with milliseconds */
  readonly since: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly endedAt?: string;
  /** Whose rows are written anew; absent: everyone's. */
  readonly tenantIds?: readonly string[];
  /** Positions of the log that it has, of the tenants that are active. */
  readonly position: number;
  /** Positions that the rows of before have. */
  readonly of: number;
  /** Why it stands still, where it does; it tries again. */
  readonly failure?: string;
};

export type ProcessActivity = {
  readonly url: string;
  readonly version: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly startedAt: string;
  readonly roles: readonly string[];
  /** Of the last hour, each of 15 s, ascending by time. */
  readonly samples: readonly ProcessSample[];
  /** Tenants, and partitions of them, that came to this process or left it: the latest 500, ascending by time. */
  readonly moves: readonly {
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly tenantId: string;
    readonly partition: number;
    /** promoted: it was a standby here; closed: idle, or another process has it. */
    readonly what: 'restored' | 'promoted' | 'closed';
    readonly tookMs?: number;
  }[];
  /** Tenants with aggregates or keys of projections that stand at an event here, or with code that is halted; the 50 that have most. */
  readonly faulted: readonly {
    readonly tenantId: string;
    readonly aggregates: number;
    readonly keys: number;
    readonly artefacts: number;
  }[];
  /** Of the tenants that are named here, by id. */
  readonly tenantNames: {
    readonly [member: string]: string;
  };
  /** The longest that each kind of work held the event loop in the last one to two minutes, and how often it held it for over 50 ms. */
  readonly holds: readonly {
    readonly work: string;
    readonly longestMs: number;
    readonly long: number;
  }[];
  /** As `/metrics` has them, without the prefix. */
  readonly figures: {
    readonly [member: string]: number;
  };
  /** The rebuild of the read store that is under way, or the last one since the start. */
  readonly readStoreRebuild?: ReadStoreRebuild;
  readonly memory: {
    /** What may be held of work under way for all tenants together. */
    readonly limitBytes: number;
    readonly tenantLimitBytes: number;
    /** By kind of work. */
    readonly held: {
      readonly [member: string]: number;
    };
  };
  /** As `/health/ready` has them. */
  readonly checks: {
    readonly [member: string]: 'up' | 'starting' | 'degraded' | 'down';
  };
};

export type Usage = {
  /** Paces are those of the last full second. */
  readonly usage: {
    readonly requestsPerSecond: number;
    readonly eventsPerSecond: number;
    readonly storageBytes: number;
    readonly projections: number;
    readonly reducers: number;
    readonly connections: number;
    readonly pendingUploads: number;
  };
  /** null: without a limit. */
  readonly quotas: {
    readonly requestsPerSecond: number | null;
    readonly eventsPerSecond: number | null;
    readonly storageBytes: number | null;
    readonly projections: number | null;
    readonly reducers: number | null;
    readonly connections: number | null;
    readonly pendingUploads: number | null;
  };
};

export type Tenant = {
  readonly tenantId: string;
  readonly name: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  readonly partitions?: number;
  readonly suspended?: true;
  /** ISO 8601, UTC, with milliseconds */
  readonly suspendedAt?: string;
  /** An import has begun, and has not ended: the tenant is served to nobody until then. */
  readonly importingSince?: string;
  /** Those that are its own. */
  readonly quotas?: {
    readonly requestsPerSecond?: number;
    readonly eventsPerSecond?: number;
    readonly storageBytes?: number;
    readonly projections?: number;
    readonly reducers?: number;
    readonly connections?: number;
    readonly pendingUploads?: number;
  };
};

export type NewTenant = {
  readonly tenantId: string;
  readonly name: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  readonly partitions?: number;
  readonly keyId: string;
  readonly apiKey: string;
};

export type Key = {
  readonly keyId: string;
  readonly tenantId: string;
  readonly name?: string;
  readonly scopes: readonly ('append' | 'read' | 'deploy' | 'erase' | 'sql' | 'webhooks' | 'audit')[];
  /** ISO 8601, UTC, with milliseconds */
  readonly expiresAt?: string;
  readonly prefix: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly revokedAt?: string;
};

export type NewKey = {
  readonly keyId: string;
  readonly tenantId: string;
  readonly name?: string;
  readonly scopes: readonly ('append' | 'read' | 'deploy' | 'erase' | 'sql' | 'webhooks' | 'audit')[];
  /** ISO 8601, UTC, with milliseconds */
  readonly expiresAt?: string;
  readonly prefix: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  readonly apiKey: string;
};

export type ReadStoreAccess = {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
};

export type CloudEvent = {
  readonly specversion: '1.0';
  /** The eventId. */
  readonly id: string;
  /** /tenants/ and the tenant that it is exported from; an import does not keep it. */
  readonly source: string;
  /** The eventType. */
  readonly type: string;
  /** The aggregateId. */
  readonly subject: string;
  /** The timestamp, RFC 3339, with milliseconds at most. */
  readonly time: string;
  readonly datacontenttype?: 'application/json' | undefined;
  /** As for appends where it is left out. */
  readonly aggregatetype?: string | undefined;
  readonly aggregateversion: number;
  readonly correlationid?: string | undefined;
  readonly causationid?: string | undefined;
  /** The text of a JSON object. */
  readonly metadata?: string | undefined;
  /** In the feed that it is exported from; an import does not keep it. */
  readonly position?: string | undefined;
  readonly data: object;
};

export type Imported = {
  readonly events: number;
  /** Of the last event in the feed of the tenant; 0 where there is none. */
  readonly position: number;
};

export type CatchUp = {
  readonly status: 'running' | 'done' | 'failed';
  readonly processed: number;
  readonly total: number;
  readonly eventsPerSecond: number;
};

export type AggregateType = {
  readonly aggregateType: string;
  readonly aggregates: number;
  /** Events appended over the last minute. Absent where events of more than 1,000 types came within it. */
  readonly eventsPerSecond?: number;
  readonly reducerId?: string;
  readonly className?: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly boundAt?: string;
  readonly catchUp?: CatchUp;
  readonly faulted?: {
    /** Of a projection. */
    readonly revision?: number;
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly strikes: number;
    readonly className?: string;
    readonly message?: string;
  };
};

export type Binding = {
  readonly aggregateType: string;
  readonly reducerId: string;
  readonly className: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly boundAt: string;
  readonly faulted?: {
    /** Of a projection. */
    readonly revision?: number;
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly strikes: number;
    readonly className?: string;
    readonly message?: string;
  };
  readonly catchUp?: CatchUp;
  readonly faultCount: number;
};

export type Bound = {
  readonly aggregateType: string;
  readonly reducerId: string;
  readonly className: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly boundAt: string;
  readonly message: string;
};

export type Generation = {
  readonly generation: number;
  readonly reducerId: string;
  readonly className: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly boundAt: string;
  /** kept: states of its code are there, so that it takes no fold from the start to bind it again. */
  readonly status: 'bound' | 'kept' | 'gone';
  readonly faulted?: {
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly strikes: number;
    readonly className?: string;
    readonly message?: string;
  };
};

export type AggregateState = {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
  readonly state: unknown;
  /** Of the last event that the state reflects; absent at version 0. */
  readonly lastModified?: string;
  readonly fault?: Fault;
  /** Why there is no state although a reducer is bound. */
  readonly stateStatus?: 'deadline' | 'faulted' | 'superseded' | 'unavailable';
  /** The last version of the aggregate. */
  readonly headVersion?: number;
  readonly className?: string;
  readonly diff?: readonly {
    readonly version: number;
    readonly eventId: string;
    readonly eventType: string;
    /** ISO 8601, UTC, with milliseconds */
    readonly timestamp: string;
    /** A JSON Patch (RFC 6902); empty where only the spelling differs. */
    readonly patch?: readonly {
      readonly op: 'add' | 'remove' | 'replace';
      readonly path: string;
      readonly [member: string]: unknown;
    }[];
    readonly skipped?: true;
    readonly fault?: Fault;
  }[];
  /** Where the diff goes on. */
  readonly nextVersion?: number;
};

export type Aggregate = {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly lastModified: string;
};

export type Erasure = {
  readonly aggregateId: string;
  /** erased: what the log had of it is marked to be taken out. To all who ask it is gone with the first answer. */
  readonly status: 'erasing' | 'erased';
};

export type AuditRecord = {
  readonly id: string;
  /** When it began. */
  readonly at: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly endedAt?: string;
  /** Absent of what is done to no one tenant. */
  readonly tenantId?: string;
  /** Of the key that asked for it; admin: the admin key; service: the service, by itself. */
  readonly keyId: string;
  /** As the key was called then. */
  readonly keyName?: string;
  /** What is done to what, for example projection.rollback. */
  readonly action: string;
  /** What it was done to, and what it made, by the names of their ids. */
  readonly object: {
    readonly [member: string]: string;
  };
  /** What was asked for, without secrets. */
  readonly details?: {
    readonly [member: string]: unknown;
  };
  /** unknown: it is under way, or its process ended before it was recorded; it may have been made. */
  readonly outcome: 'done' | 'refused' | 'failed' | 'unknown';
  /** The HTTP status of the answer. */
  readonly status?: number;
  /** Of the error that was answered; ABORTED: the caller went away with the body half sent. */
  readonly code?: string;
  /** X-Request-Id; of what the service did by itself, an id of its own. */
  readonly requestId: string;
  /** Of who connected; a tenant is not told the address of the admin. */
  readonly remoteAddress?: string;
};

export type EventType = {
  readonly eventType: string;
  /** Of the aggregates that have such events; the first 50 of them. */
  readonly aggregateTypes: readonly string[];
  readonly events: number;
  /** Of its first event; absent while it has none. */
  readonly firstSeen?: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly lastSeen?: string;
  /** Counts the schemas that were put; absent where its data may be anything. */
  readonly schemaVersion?: number;
};

export type EventTypeWithSchema = {
  readonly eventType: string;
  /** Of the aggregates that have such events; the first 50 of them. */
  readonly aggregateTypes: readonly string[];
  readonly events: number;
  /** Of its first event; absent while it has none. */
  readonly firstSeen?: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly lastSeen?: string;
  /** Counts the schemas that were put; absent where its data may be anything. */
  readonly schemaVersion?: number;
  /** A JSON Schema (2020-12). */
  readonly schema?:
    | {
        readonly [member: string]: unknown;
      }
    | boolean;
  /** ISO 8601, UTC, with milliseconds */
  readonly schemaChangedAt?: string;
};

export type EventSchemaCheck = {
  readonly eventType: string;
  /** Absent of a check that changes nothing. */
  readonly schemaVersion?: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly schemaChangedAt?: string;
  /** Stored events of the type that were looked at. */
  readonly checked: number;
  /** Those among them that do not fit the schema. They stay as they are. */
  readonly unfit: number;
  /** The first ten of them. */
  readonly examples: readonly {
    readonly aggregateId: string;
    readonly version: number;
    readonly eventId: string;
    /** ISO 8601, UTC, with milliseconds */
    readonly timestamp: string;
    readonly errors: readonly {
      readonly pointer: string;
      readonly message: string;
    }[];
  }[];
  /** All stored events of the type were looked at. */
  readonly complete: boolean;
  /** Why not, and how far it got. */
  readonly cut?: string;
  /** Keywords in the schema that JSON Schema does not know: they check nothing. The first 20, and how many more there are. */
  readonly ignored: readonly {
    readonly pointer: string;
    readonly message: string;
  }[];
};

export type Append = {
  readonly aggregateId: string;
  readonly eventType: string;
  readonly data: object;
  readonly aggregateType?: string | undefined;
  /** The version the aggregate must be at; 0: it must not exist. */
  readonly expectedVersion?: number | ('any' | 'none' | 'exists') | undefined;
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: object | undefined;
};

export type BulkLine = {
  readonly aggregateId: string;
  readonly eventType: string;
  readonly data: object;
  readonly aggregateType?: string | undefined;
  /** The version the aggregate must be at; 0: it must not exist. */
  readonly expectedVersion?: number | ('any' | 'none' | 'exists') | undefined;
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: object | undefined;
  /** Makes the line safe to repeat; one name with the header Idempotency-Key of POST /events. */
  readonly idempotencyKey?: string | undefined;
};

export type AppendBatch = {
  readonly aggregateId: string;
  /** What an event has of its own besides eventType and data goes before what the batch has. */
  readonly events: readonly {
    readonly eventType: string;
    readonly data: object;
    readonly correlationId?: string | undefined;
    readonly causationId?: string | undefined;
    readonly metadata?: object | undefined;
  }[];
  readonly aggregateType?: string | undefined;
  /** The version the aggregate must be at; 0: it must not exist. */
  readonly expectedVersion?: number | ('any' | 'none' | 'exists') | undefined;
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: object | undefined;
};

export type Transaction = {
  /** One for each aggregate; no aggregate is named twice. The bound of a batch holds for all their events together. */
  readonly appends: readonly {
    readonly aggregateId: string;
    readonly events: readonly {
      readonly eventType: string;
      readonly data: object;
      readonly correlationId?: string | undefined;
      readonly causationId?: string | undefined;
      readonly metadata?: object | undefined;
    }[];
    readonly aggregateType?: string | undefined;
    /** The version the aggregate must be at; 0: it must not exist. */
    readonly expectedVersion?: number | ('any' | 'none' | 'exists') | undefined;
  }[];
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: object | undefined;
};

export type Appended = {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
  readonly state?: unknown;
  /** Why there is no state although a reducer is bound. */
  readonly stateStatus?: 'deadline' | 'faulted' | 'superseded' | 'unavailable';
};

export type BatchAppended = {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly startVersion: number;
  readonly endVersion: number;
  readonly eventIds: readonly string[];
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
  readonly state?: unknown;
  /** Why there is no state although a reducer is bound. */
  readonly stateStatus?: 'deadline' | 'faulted' | 'superseded' | 'unavailable';
};

export type TransactionAppended = {
  /** Of the last event in the feed, as the header Statefold-Position has it; left out as the header is. */
  readonly position?: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  /** In the order of the request. */
  readonly appends: readonly {
    readonly aggregateId: string;
    readonly aggregateType: string;
    readonly startVersion: number;
    readonly endVersion: number;
    readonly eventIds: readonly string[];
    /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
    readonly state?: unknown;
    /** Why there is no state although a reducer is bound. */
    readonly stateStatus?: 'deadline' | 'faulted' | 'superseded' | 'unavailable';
  }[];
};

export type BulkAppended = {
  readonly line: number;
  readonly status: 201;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  /** Of the event in the feed, as the header Statefold-Position has it. */
  readonly position?: number;
  /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
  readonly state?: unknown;
  /** Why there is no state although a reducer is bound. */
  readonly stateStatus?: 'deadline' | 'faulted' | 'superseded' | 'unavailable';
};

export type BulkRefused = {
  readonly line: number;
  readonly status: number;
  readonly code:
    | 'ALREADY_EXISTS'
    | 'AGGREGATE_TYPE_MISMATCH'
    | 'ARTEFACT_FAULTED'
    | 'BUILD_UNDER_WAY'
    | 'CROSS_PARTITION'
    | 'CURSOR_EXPIRED'
    | 'FAULT_MISMATCH'
    | 'FAULT_WITHOUT_KEY'
    | 'FORBIDDEN'
    | 'GONE'
    | 'IDEMPOTENCY_KEY_REUSED'
    | 'INSPECTION_DEADLINE'
    | 'INTERNAL'
    | 'INVALID_ARCHIVE'
    | 'INVALID_REQUEST'
    | 'METHOD_NOT_ALLOWED'
    | 'NO_BUILD'
    | 'NO_EARLIER_REVISION'
    | 'NO_REBUILD'
    | 'NO_REDUCER_BOUND'
    | 'NOT_CAUGHT_UP'
    | 'NOT_FAULTED'
    | 'NOT_FOUND'
    | 'PAYLOAD_TOO_LARGE'
    | 'PROJECTION_NOT_LIVE'
    | 'QUOTA_EXCEEDED'
    | 'RATE_LIMITED'
    | 'READ_STORE_DISABLED'
    | 'REBUILD_NOT_CANCELLABLE'
    | 'REDUCER_BOUND'
    | 'REDUCER_CLASS_AMBIGUOUS'
    | 'REDUCER_CLASS_NOT_FOUND'
    | 'REDUCER_NOT_COMPILED'
    | 'REVISION_NOT_COMPILED'
    | 'SCHEMA_VIOLATION'
    | 'SQL_NOT_ISOLATED'
    | 'SQL_REFUSED'
    | 'SSE_DISABLED'
    | 'TENANT_NOT_EMPTY'
    | 'TENANT_SUSPENDED'
    | 'UNAUTHENTICATED'
    | 'UNAVAILABLE'
    | 'UNSUPPORTED_MEDIA_TYPE'
    | 'VERSION_CONFLICT'
    | 'WEBHOOK_NOT_CONFIGURED'
    | 'WEBHOOK_SECRET_SHARED'
    | 'WEBHOOK_URL_REFUSED';
  readonly detail: string;
  /** RFC 6901: the first place in the line that is wrong. */
  readonly pointer?: string;
  readonly retryable?: true;
  /** The version the aggregate must be at; 0: it must not exist. */
  readonly expectedVersion?: number | ('any' | 'none' | 'exists');
  readonly currentVersion?: number;
  readonly [member: string]: unknown;
};

export type BulkAnswer = BulkAppended | BulkRefused;

export type FeedEvent = {
  /** Its place in the feed: ascending, with gaps, and the same for ever. */
  readonly position: number;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly eventType: string;
  readonly data: {
    readonly [member: string]: unknown;
  };
  readonly version: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly metadata?: {
    readonly [member: string]: unknown;
  };
};

export type FeedErasure = {
  /** The aggregate was erased: its events are in the feed no more. Erase your copies of them. */
  readonly type: 'erased';
  /** Its place in the feed, as that of an event. */
  readonly position: number;
  readonly aggregateId: string;
  readonly aggregateType: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  readonly reason?: string;
};

export type FaultChoice = {
  readonly eventId?: string | undefined;
  readonly version?: number | undefined;
};

export type KeyFaultChoice = {
  readonly eventId?: string | undefined;
  readonly version?: number | undefined;
  readonly className?: string | undefined;
};

export type KeysFaultChoice = {
  readonly eventId?: string | undefined;
  readonly version?: number | undefined;
  readonly className?: string | undefined;
  readonly key?: string | undefined;
};

export type AggregateReleased = {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly outcome: 'released' | 'faulted' | 'pending';
  /** Of the state now. */
  readonly version: number;
  /** By which the state came further, those that were passed over too. */
  readonly events: number;
  readonly fault?: Fault;
};

export type KeysReleased = {
  readonly projectionId: string;
  readonly keys: readonly {
    readonly key: string;
    readonly className: string;
    readonly outcome: 'released' | 'faulted' | 'superseded' | 'pending';
    /** Of the state, that were told. */
    readonly changes: number;
    readonly fault?: Fault;
  }[];
};

export type Notification = {
  readonly sequence: number;
  readonly projectionId: string;
  readonly className: string;
  readonly key: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
  readonly state: unknown;
  /** ISO 8601, UTC, with milliseconds */
  readonly timestamp: string;
  readonly eventId: string;
  /** Absent for a live event; snapshot: a state that a stream with snapshot=true tells first. */
  readonly cause?: 'build' | 'redeploy' | 'rollback' | 'rebuild' | 'revive' | 'retry' | 'skip' | 'snapshot';
};

export type Projection = {
  readonly id: string;
  readonly status: 'compiling' | 'compiled' | 'failed';
  readonly kind: 'projection';
  readonly discovered?: readonly Discovered[];
  readonly compilationError?: string;
  readonly diagnostics?: readonly Diagnostic[];
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly compiledAt?: string;
  readonly revision: number;
  readonly sse: boolean;
  readonly webhook?: {
    readonly url?: string;
    readonly isolated: boolean;
    /** ISO 8601, UTC, with milliseconds */
    readonly disabledAt?: string;
  };
  /** ISO 8601, UTC, with milliseconds */
  readonly cancelledAt?: string;
  readonly live?: {
    readonly revision: number;
    readonly artefactId: string;
  };
  readonly build?: {
    readonly status: 'running' | 'done' | 'failed';
    readonly processed: number;
    readonly total: number;
    readonly eventsPerSecond: number;
    readonly revision: number;
    readonly cause: 'build' | 'redeploy' | 'rollback' | 'rebuild' | 'revive';
  };
  /** Absent where the states have all events, or no revision is live. */
  readonly lag?: {
    readonly commits: number;
    /** Events that the states do not have; absent where they are too many to be counted: about a thousand. */
    readonly events?: number;
    /** The time of the first event that the states do not have. */
    readonly since: string;
  };
  /** Where the tenant’s changes, of all projections, end: who has come there with `afterSequence` has missed nothing. It may be past the last change, after a restart for one. Absent where no revision is live. */
  readonly lastSequence?: number;
  /** Events that it has worked off over the last minute, also those that it makes nothing of. Absent where no revision is live; of a build, `build` tells. */
  readonly eventsPerSecond?: number;
  readonly faulted?: {
    /** Of a projection. */
    readonly revision?: number;
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly strikes: number;
    readonly className?: string;
    readonly message?: string;
  };
  /** The first hundred of them; of one projection alone, and not of each in a list. */
  readonly faults?: readonly KeyFault[];
  readonly faultCount?: number;
  /** An aggregate was erased whose events may be in the states, until the projection is built again: POST /projections/{id}/rebuild. */
  readonly erasedSinceBuild?: true;
};

export type ProjectionUploaded = {
  readonly success: boolean;
  readonly projectionId: string;
  /** `compiling`, unless the upload was sent with `waitSeconds`. */
  readonly status: 'compiling' | 'compiled' | 'failed';
  readonly message: string;
  readonly compilationError?: string;
  readonly diagnostics?: readonly Diagnostic[];
  /** The uploaded revision, where it was live within `waitSeconds`. */
  readonly live?: {
    readonly revision: number;
    readonly artefactId: string;
  };
  readonly notifications?: {
    readonly webhook: {
      readonly enabled: boolean;
      /** A signing secret of Standard Webhooks. */
      readonly secret: string;
      readonly isolated: boolean;
    };
    readonly sse: boolean;
  };
};

export type ProjectionState = {
  readonly key: string;
  readonly className: string;
  /** What the reducer or projection made of the events: shaped by its own state type; null when it gave none. */
  readonly state: unknown;
  readonly sequence: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly lastModified: string;
  readonly fault?: Fault;
};

export type Reducer = {
  readonly id: string;
  readonly status: 'pending_compilation' | 'compiled' | 'failed';
  readonly kind: 'reducer';
  readonly discovered?: readonly Discovered[];
  readonly compilationError?: string;
  readonly diagnostics?: readonly Diagnostic[];
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly compiledAt?: string;
  readonly unboundTypes?: readonly {
    readonly aggregateType: string;
    readonly classNames: readonly string[];
    readonly reason: string;
  }[];
  readonly faulted?: {
    /** Of a projection. */
    readonly revision?: number;
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly strikes: number;
    readonly className?: string;
    readonly message?: string;
  };
};

export type ReducerUploaded = {
  readonly reducerId: string;
  /** `pending_compilation`, unless the upload was sent with `waitSeconds`. */
  readonly status: 'pending_compilation' | 'compiled' | 'failed';
  readonly compilationError?: string;
  readonly diagnostics?: readonly Diagnostic[];
};

export type Revision = {
  readonly revision: number;
  /** kept: its states are there, so that it could be live again without a build from the start. */
  readonly status: 'compiling' | 'failed' | 'building' | 'live' | 'kept' | 'cancelled' | 'gone';
  readonly cause: 'upload' | 'rollback' | 'rebuild' | 'revive';
  /** The revision whose code it has. */
  readonly of?: number;
  readonly artefactId: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  /** When its code was uploaded. */
  readonly uploadedAt: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly compiledAt?: string;
  readonly compilationError?: string;
  /** How many keys were other than before when it went live. */
  readonly changedKeys?: number;
  readonly faulted?: {
    /** ISO 8601, UTC, with milliseconds */
    readonly at: string;
    readonly strikes: number;
    readonly className?: string;
    readonly message?: string;
  };
};

export type RevisionChosen = {
  readonly projectionId: string;
  readonly revision: number;
  readonly of: number;
  readonly artefactId: string;
  readonly status: 'building' | 'live';
  readonly message: string;
};

export type SqlAccount = {
  readonly accountId: string;
  readonly name?: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  /** Of the ClickHouse server. */
  readonly user: string;
  /** Where the tables are. */
  readonly database: string;
  /** Of ClickHouse’s HTTP interface, as the service reaches it. */
  readonly url: string;
};

export type NewSqlAccount = {
  readonly accountId: string;
  readonly name?: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  /** Of the ClickHouse server. */
  readonly user: string;
  /** Where the tables are. */
  readonly database: string;
  /** Of ClickHouse’s HTTP interface, as the service reaches it. */
  readonly url: string;
  /** Shown only now. */
  readonly password: string;
};

export type StateType = {
  readonly kind: 'reducer' | 'projection';
  readonly className: string;
  /** Of a reducer: of the aggregates that it is bound to. */
  readonly aggregateType?: string;
  /** Of a projection. */
  readonly projectionId?: string;
  /** JSON Schema (2020-12) of the state where it is not null, as the compiler has found it in the code. x-dotnet is the type in C#. */
  readonly schema: {
    readonly [member: string]: unknown;
  };
};

export type WhoAmI = {
  readonly tenantId: string;
  readonly name: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  readonly partitions?: number;
  readonly keyName?: string;
  readonly scopes: readonly ('append' | 'read' | 'deploy' | 'erase' | 'sql' | 'webhooks' | 'audit')[];
  /** ISO 8601, UTC, with milliseconds */
  readonly expiresAt?: string;
  /** The key may make accounts for SQL, and the service has them: POST /sql/accounts. */
  readonly sqlAccounts?: true;
};

export type Ticket = {
  readonly ticket: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly expiresAt: string;
};

export type WebhookEndpoint = {
  readonly endpointId: string;
  readonly url: string;
  /** What the endpoint is told of. */
  readonly source:
    | {
        /** Told of the changes of this projection. */
        readonly projectionId: string;
      }
    | {
        /** Told of all events of the tenant, or of those of these types. */
        readonly feed: {
          readonly aggregateTypes?: readonly string[];
          readonly eventTypes?: readonly string[];
        };
      };
  readonly keys?: readonly string[];
  readonly description?: string;
  /** It has a secret of its own; false: it uses the shared one of the tenant. */
  readonly isolated: boolean;
  /** Of the headers that go with each attempt. Their values are not shown. */
  readonly headerNames?: readonly string[];
  readonly ratePerSecond?: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  readonly state: {
    readonly status: 'healthy' | 'failing' | 'paused' | 'disabled';
    readonly reason?: string;
    /** ISO 8601, UTC, with milliseconds */
    readonly since: string;
  };
  /** Up to this sequence or position all is delivered or parked. */
  readonly through: number;
  /** Messages past it that were taken, and are neither. */
  readonly pending: number;
  /** Messages that were given up, as GET …/parked lists them. */
  readonly parked: number;
};

export type NewWebhookEndpoint = {
  readonly endpointId: string;
  readonly url: string;
  /** What the endpoint is told of. */
  readonly source:
    | {
        /** Told of the changes of this projection. */
        readonly projectionId: string;
      }
    | {
        /** Told of all events of the tenant, or of those of these types. */
        readonly feed: {
          readonly aggregateTypes?: readonly string[];
          readonly eventTypes?: readonly string[];
        };
      };
  readonly keys?: readonly string[];
  readonly description?: string;
  /** It has a secret of its own; false: it uses the shared one of the tenant. */
  readonly isolated: boolean;
  /** Of the headers that go with each attempt. Their values are not shown. */
  readonly headerNames?: readonly string[];
  readonly ratePerSecond?: number;
  /** ISO 8601, UTC, with milliseconds */
  readonly createdAt: string;
  readonly state: {
    readonly status: 'healthy' | 'failing' | 'paused' | 'disabled';
    readonly reason?: string;
    /** ISO 8601, UTC, with milliseconds */
    readonly since: string;
  };
  /** Up to this sequence or position all is delivered or parked. */
  readonly through: number;
  /** Messages past it that were taken, and are neither. */
  readonly pending: number;
  /** Messages that were given up, as GET …/parked lists them. */
  readonly parked: number;
  /** A signing secret of Standard Webhooks. */
  readonly secret: string;
};

export type WebhookAttempt = {
  /** The `webhook-id` of the message. */
  readonly messageId: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly at: string;
  /** Of HTTP; absent where there was no answer. */
  readonly status?: number;
  readonly durationMs: number;
  /** Why it failed; absent where it was delivered. */
  readonly error?: string;
  /** How the body of a refusal begins. */
  readonly responseExcerpt?: string;
  readonly sequence?: number;
  readonly position?: number;
  /** From 1 on, of this message. */
  readonly attempt: number;
};

export type ParkedMessage = {
  readonly messageId: string;
  readonly sequence?: number;
  readonly position?: number;
  readonly key: string;
  /** ISO 8601, UTC, with milliseconds */
  readonly at: string;
  readonly attempts: number;
  readonly reason: string;
};

/** What goes over the wire, by operation: the parameters of its path and query, its body, and the body of its success. */
export interface Operations {
  /** Append one event. */
  readonly appendEvent: {
    readonly path: undefined;
    readonly query: {
      readonly includeConflicts?: boolean | undefined;
    };
    readonly body: Append;
    readonly answer: Appended;
  };
  /** Append several events to one aggregate, all or none. */
  readonly appendBatch: {
    readonly path: undefined;
    readonly query: {
      readonly includeConflicts?: boolean | undefined;
    };
    readonly body: AppendBatch;
    readonly answer: BatchAppended;
  };
  /** Append events to several aggregates, all or none. */
  readonly appendTransaction: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: Transaction;
    readonly answer: TransactionAppended;
  };
  /** Append any number of events, line by line, each on its own. */
  readonly appendBulk: {
    readonly path: undefined;
    readonly query: {
      /** Adds the state of each line, where a reducer is bound. */
      readonly state?: boolean | undefined;
    };
    readonly body: string;
    readonly answer: string;
  };
  /** List the events of an aggregate. */
  readonly listEvents: {
    readonly path: {
      readonly aggregateId: string;
    };
    readonly query: {
      readonly fromVersion?: number | undefined;
      readonly toVersion?: number | undefined;
      readonly limit?: number | undefined;
      readonly direction?: 'forward' | 'backward' | undefined;
      /** Adds aggregateType, and correlationId, causationId and metadata where they were sent. */
      readonly include?: 'metadata' | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly events: readonly Event[];
      readonly nextVersion?: number;
      readonly fault?: Fault;
    };
  };
  /** List the types of events, with their numbers. */
  readonly listEventTypes: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly eventTypes: readonly EventType[];
      /** Events of types that are not counted each, since there were very many types before theirs. */
      readonly otherEvents?: number;
      readonly nextCursor?: string;
    };
  };
  /** A type of events, with its schema. */
  readonly getEventType: {
    readonly path: {
      readonly type: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: EventTypeWithSchema;
  };
  /** Hold the events of a type to a schema, and tell which stored ones would not fit. */
  readonly setEventSchema: {
    readonly path: {
      readonly type: string;
    };
    readonly query: {
      /** Tells what it would say of the stored events, and changes nothing. */
      readonly check?: boolean | undefined;
    };
    readonly body: {
      /** A JSON Schema (2020-12) that the data of each event of the type must fit. */
      readonly schema: unknown;
    };
    readonly answer: EventSchemaCheck;
  };
  /** End the schema of a type: its events may be anything again. */
  readonly deleteEventSchema: {
    readonly path: {
      readonly type: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** List aggregates. */
  readonly listAggregates: {
    readonly path: undefined;
    readonly query: {
      readonly type?: string | undefined;
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly aggregates: readonly Aggregate[];
      readonly nextCursor?: string;
    };
  };
  /** Erase an aggregate: its events, its state and its id are gone for ever. */
  readonly eraseAggregate: {
    readonly path: {
      readonly aggregateId: string;
    };
    readonly query: {
      /** Why, for those who read the feed: it stays. In the body, or here. */
      readonly reason?: string | undefined;
    };
    readonly body:
      | {
          readonly reason?: string | undefined;
        }
      | undefined;
    readonly answer: Erasure;
  };
  /** List aggregate types and their bindings. */
  readonly listAggregateTypes: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly aggregateTypes: readonly AggregateType[];
      readonly nextCursor?: string;
    };
  };
  /** The binding of an aggregate type. */
  readonly getBinding: {
    readonly path: {
      readonly type: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Binding;
  };
  /** Bind a reducer to an aggregate type. */
  readonly bindReducer: {
    readonly path: {
      readonly type: string;
    };
    readonly query: undefined;
    readonly body: {
      readonly reducerId: string;
      readonly className?: string | undefined;
    };
    readonly answer: Bound;
  };
  /** The bindings of an aggregate type, the newest first. */
  readonly getBindingHistory: {
    readonly path: {
      readonly type: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly aggregateType: string;
      readonly generations: readonly Generation[];
    };
  };
  /** The state of an aggregate. */
  readonly getAggregateState: {
    readonly path: {
      readonly type: string;
      readonly id: string;
    };
    readonly query: {
      readonly atVersion?: number | undefined;
      /** The version that was last appended at or before then. */
      readonly atTime?: string | undefined;
      /** Folded by this compiled reducer rather than the bound one. */
      readonly reducerId?: string | undefined;
      readonly className?: string | undefined;
      /** Also what each event did to the state. */
      readonly diff?: boolean | undefined;
      /** Of the diff. */
      readonly fromVersion?: number | undefined;
      /** Events of the diff. */
      readonly limit?: number | undefined;
    };
    readonly body: undefined;
    readonly answer: AggregateState;
  };
  /** List the aggregates of a type that are faulted: the reducer threw at an event. */
  readonly listAggregateFaults: {
    readonly path: {
      readonly type: string;
    };
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly faults: readonly Fault[];
      readonly nextCursor?: string;
    };
  };
  /** Run the event at which the aggregate stands again, and those after it. */
  readonly retryAggregate: {
    readonly path: {
      readonly type: string;
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: FaultChoice | undefined;
    readonly answer: AggregateReleased;
  };
  /** Pass the event at which the aggregate stands over, and go on. */
  readonly skipAggregate: {
    readonly path: {
      readonly type: string;
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: FaultChoice | undefined;
    readonly answer: AggregateReleased;
  };
  /** List the keys of a projection that are faulted: the code threw at an event. */
  readonly listKeyFaults: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly faults: readonly KeyFault[];
      readonly nextCursor?: string;
    };
  };
  /** Run the events at which keys stand again, of one key or of all (up to 1,000). */
  readonly retryKeys: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: KeysFaultChoice | undefined;
    readonly answer: KeysReleased;
  };
  /** Pass the events at which keys stand over, of one key or of all (up to 1,000). */
  readonly skipKeys: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: KeysFaultChoice | undefined;
    readonly answer: KeysReleased;
  };
  /** Run the event at which the key stands again, and those after it. */
  readonly retryKey: {
    readonly path: {
      readonly id: string;
      readonly key: string;
    };
    readonly query: undefined;
    readonly body: KeyFaultChoice | undefined;
    readonly answer: KeysReleased;
  };
  /** Pass the event at which the key stands over, and go on. */
  readonly skipKey: {
    readonly path: {
      readonly id: string;
      readonly key: string;
    };
    readonly query: undefined;
    readonly body: KeyFaultChoice | undefined;
    readonly answer: KeysReleased;
  };
  /** List reducers. */
  readonly listReducers: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly reducers: readonly Reducer[];
      readonly nextCursor?: string;
    };
  };
  /** Upload the sources of reducers. */
  readonly uploadReducer: {
    readonly path: undefined;
    readonly query: {
      /** How long the answer may wait: for a reducer to be compiled and bound, for a projection to be live. */
      readonly waitSeconds?: number | undefined;
    };
    readonly body: FormData;
    readonly answer: ReducerUploaded;
  };
  /** Delete a reducer that no type is bound to. */
  readonly deleteReducer: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** A reducer and its compilation. */
  readonly getReducer: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Reducer;
  };
  /** The sources of a reducer, as they were uploaded. */
  readonly getReducerSources: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly reducerId: string;
      readonly files: readonly Source[];
    };
  };
  /** Let code that was halted for its strikes run again, from where it was. */
  readonly reviveReducer: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Reducer;
  };
  /** List projections. */
  readonly listProjections: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly projections: readonly Projection[];
      readonly nextCursor?: string;
    };
  };
  /** Upload the sources of a projection. */
  readonly uploadProjection: {
    readonly path: undefined;
    readonly query: {
      /** How long the answer may wait: for a reducer to be compiled and bound, for a projection to be live. */
      readonly waitSeconds?: number | undefined;
    };
    readonly body: FormData;
    readonly answer: ProjectionUploaded;
  };
  /** Change the notifications of a projection, and no code. */
  readonly configureProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body:
      | {
          readonly webhook?:
            | {
                readonly url?: string | undefined;
                readonly isolateSecret?: boolean | undefined;
              }
            | null
            | undefined;
          readonly isolateSecret?: boolean | undefined;
          readonly sse?: boolean | undefined;
        }
      | {
          readonly notifications: {
            readonly webhook?:
              | {
                  readonly url?: string | undefined;
                  readonly isolateSecret?: boolean | undefined;
                }
              | null
              | undefined;
            readonly isolateSecret?: boolean | undefined;
            readonly sse?: boolean | undefined;
          };
        };
    readonly answer: {
      readonly projectionId: string;
      readonly notifications: {
        readonly webhook: {
          readonly enabled: boolean;
          readonly secret?: string;
          readonly isolated?: boolean;
        };
        readonly sse: boolean;
      };
    };
  };
  /** Delete a projection. */
  readonly deleteProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** A projection and its compilation. */
  readonly getProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Projection;
  };
  /** List the states of a projection. */
  readonly listStates: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly prefix?: string | undefined;
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
      /** A position of the feed, as the header Statefold-Position of a 201 tells it: the answer has all events up to there, or is 503 NOT_CAUGHT_UP. */
      readonly waitFor?: number | undefined;
      /** With waitFor: how long to wait for it, 5 unless it is given. */
      readonly waitSeconds?: number | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly states: readonly ProjectionState[];
      readonly nextCursor?: string;
    };
  };
  /** The states of one key, one a class. */
  readonly getStates: {
    readonly path: {
      readonly id: string;
      readonly key: string;
    };
    readonly query: {
      readonly cursor?: string | undefined;
      /** A position of the feed, as the header Statefold-Position of a 201 tells it: the answer has all events up to there, or is 503 NOT_CAUGHT_UP. */
      readonly waitFor?: number | undefined;
      /** With waitFor: how long to wait for it, 5 unless it is given. */
      readonly waitSeconds?: number | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly states: readonly ProjectionState[];
      readonly nextCursor?: string;
    };
  };
  /** The revisions of a projection, the newest first. */
  readonly listRevisions: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly projectionId: string;
      readonly revisions: readonly Revision[];
    };
  };
  /** The sources of a revision, as they were uploaded. */
  readonly getRevisionSources: {
    readonly path: {
      readonly id: string;
      readonly revision: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly projectionId: string;
      readonly revision: number;
      readonly files: readonly Source[];
    };
  };
  /** Make the code of an earlier revision the live one again: of the last other one that was live, unless one is named. */
  readonly rollbackProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body:
      | {
          readonly revision?: number | undefined;
        }
      | undefined;
    readonly answer: RevisionChosen;
  };
  /** Fold the live code again from the start, beside what is live. */
  readonly rebuildProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: RevisionChosen;
  };
  /** Let code that was halted for its strikes run again, from where it was. */
  readonly reviveProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: RevisionChosen;
  };
  /** Call off the revision that is not live yet. */
  readonly cancelBuild: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** What an upload would be refused for, and whether it is there already; nothing is kept. */
  readonly checkReducer: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: FormData;
    readonly answer:
      | {
          readonly status: 'compiled';
          readonly discovered: readonly Discovered[];
          readonly diagnostics: readonly Diagnostic[];
          /** A compiled reducer with the same sources: one that is bound, else the newest. */
          readonly sameAs?: string;
        }
      | {
          readonly status: 'failed';
          readonly compilationError: string;
          readonly diagnostics: readonly Diagnostic[];
        };
  };
  /** What an upload would be refused for, and whether it is there already; nothing is kept. */
  readonly checkProjection: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: FormData;
    readonly answer:
      | {
          readonly status: 'compiled';
          readonly discovered: readonly Discovered[];
          readonly diagnostics: readonly Diagnostic[];
          /** The revision of projectionId that is live, or on the way to be, where it has the same sources. */
          readonly sameAs?: number;
        }
      | {
          readonly status: 'failed';
          readonly compilationError: string;
          readonly diagnostics: readonly Diagnostic[];
        };
  };
  /** Run the fixtures of an upload that is not kept. */
  readonly runFixtures: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: FormData;
    readonly answer:
      | {
          readonly status: 'compiled';
          readonly passed: number;
          readonly failed: number;
          /** Why not all cases were run, and how many were. */
          readonly cut?: string;
          readonly cases: readonly {
            readonly file: string;
            readonly name: string;
            readonly status: 'passed' | 'failed';
            readonly milliseconds: number;
            readonly failures?: readonly (
              | {
                  readonly kind: 'state';
                  /** The key of a projection’s state, or the id of an aggregate. */
                  readonly key: string;
                  /** Absent where the case does not name the key, and its events change it. */
                  readonly expected?: unknown;
                  /** A state as its code shapes it; null where there is none. */
                  readonly actual?: unknown;
                  /** The answer has no room for the two states. */
                  readonly shown?: false;
                }
              | {
                  readonly kind: 'fault';
                  /** The key of a projection’s state, or the id of an aggregate. */
                  readonly key: string;
                  /** Part of the message; absent where it was not to stop. */
                  readonly expected?: string;
                  /** Absent where it did not stop. */
                  readonly fault?: Fault;
                  /** It stopped at an event that the case gives as what came before. */
                  readonly given: boolean;
                }
              | {
                  readonly kind: 'case';
                  /** Why the case can’t be run. */
                  readonly message: string;
                }
            )[];
            /** Further failures, which the answer has no room for. */
            readonly omitted?: number;
          }[];
          readonly diagnostics: readonly Diagnostic[];
          readonly seconds: number;
        }
      | {
          readonly status: 'failed';
          readonly compilationError: string;
          readonly diagnostics: readonly Diagnostic[];
        };
  };
  /** Fold stored aggregates with an upload that is not kept, and compare with their states. */
  readonly dryRunReducers: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: FormData;
    readonly answer:
      | {
          readonly status: 'compiled';
          readonly complete: boolean;
          /** Why not all was folded, and how far it got. */
          readonly cut?: string;
          readonly classes: readonly {
            readonly className: string;
            readonly aggregateType?: string;
            /** The class whose states they are compared with. */
            readonly comparedWith?: string;
            /** Aggregates of the type. */
            readonly total?: number;
            readonly folded: number;
            readonly changed: number;
            readonly unchanged: number;
            readonly added: number;
            readonly removed: number;
            readonly faulted: number;
            readonly faultedBefore: number;
          }[];
          readonly changes: readonly {
            readonly aggregateId: string;
            readonly className: string;
            readonly version?: number;
            /** A state as its code shapes it; null where there is none. */
            readonly before: unknown;
            /** A state as its code shapes it; null where there is none. */
            readonly after: unknown;
            /** A JSON Patch (RFC 6902); empty where only the spelling differs. */
            readonly patch: readonly {
              readonly op: 'add' | 'remove' | 'replace';
              readonly path: string;
              readonly [member: string]: unknown;
            }[];
          }[];
          readonly faults: readonly Fault[];
          readonly diagnostics: readonly Diagnostic[];
          readonly events: number;
          readonly seconds: number;
          readonly eventsPerSecond: number;
        }
      | {
          readonly status: 'failed';
          readonly compilationError: string;
          readonly diagnostics: readonly Diagnostic[];
        };
  };
  /** Fold the history with an upload that is not kept, and compare with a live projection. */
  readonly dryRunProjection: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: FormData;
    readonly answer:
      | {
          readonly status: 'compiled';
          readonly complete: boolean;
          /** Why not all was folded, and how far it got. */
          readonly cut?: string;
          readonly classes: readonly {
            readonly className: string;
            readonly aggregateType?: string;
            /** The class whose states they are compared with. */
            readonly comparedWith?: string;
            /** Aggregates of the type. */
            readonly total?: number;
            readonly folded: number;
            readonly changed: number;
            readonly unchanged: number;
            readonly added: number;
            readonly removed: number;
            readonly faulted: number;
            readonly faultedBefore: number;
          }[];
          readonly changes: readonly {
            readonly key: string;
            readonly className: string;
            readonly version?: number;
            /** A state as its code shapes it; null where there is none. */
            readonly before: unknown;
            /** A state as its code shapes it; null where there is none. */
            readonly after: unknown;
            /** A JSON Patch (RFC 6902); empty where only the spelling differs. */
            readonly patch: readonly {
              readonly op: 'add' | 'remove' | 'replace';
              readonly path: string;
              readonly [member: string]: unknown;
            }[];
          }[];
          readonly faults: readonly KeyFault[];
          readonly diagnostics: readonly Diagnostic[];
          readonly events: number;
          readonly seconds: number;
          readonly eventsPerSecond: number;
        }
      | {
          readonly status: 'failed';
          readonly compilationError: string;
          readonly diagnostics: readonly Diagnostic[];
        };
  };
  /** Fold aggregates again from the log and compare with what is stored. */
  readonly verifyAggregates: {
    readonly path: {
      readonly type: string;
    };
    readonly query: undefined;
    readonly body: {
      readonly aggregateIds?: readonly string[] | undefined;
      readonly sample?: number | undefined;
      readonly seed?: number | undefined;
    };
    readonly answer: {
      readonly complete: boolean;
      readonly aggregateType: string;
      readonly reducerClass: string;
      readonly unknown: readonly string[];
      /** Why not all was folded, and how far it got. */
      readonly cut?: string;
      readonly checked: number;
      readonly equal: number;
      readonly different: number;
      readonly absent: number;
      /** Its rows of the same aggregates or keys; absent where it could not be asked. */
      readonly readStore?: {
        readonly equal: number;
        readonly different: number;
        readonly absent: number;
        readonly behind: number;
      };
      readonly differences: readonly {
        readonly aggregateId: string;
        readonly className: string;
        readonly version?: number;
        readonly store: 'equal' | 'different' | 'absent' | 'behind';
        readonly readStore?: 'equal' | 'different' | 'absent' | 'behind';
        /** A state as its code shapes it; null where there is none. */
        readonly stored: unknown;
        /** A state as its code shapes it; null where there is none. */
        readonly recomputed: unknown;
        /** A JSON Patch (RFC 6902); empty where only the spelling differs. */
        readonly patch: readonly {
          readonly op: 'add' | 'remove' | 'replace';
          readonly path: string;
          readonly [member: string]: unknown;
        }[];
        readonly storedFault?: Fault;
        readonly fault?: Fault;
      }[];
      readonly events: number;
      readonly seconds: number;
      readonly eventsPerSecond: number;
    };
  };
  /** Fold keys of a projection again from the log and compare with what is stored. */
  readonly verifyProjection: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: {
      readonly keys?: readonly string[] | undefined;
      readonly sample?: number | undefined;
      readonly seed?: number | undefined;
    };
    readonly answer: {
      readonly complete: boolean;
      readonly projectionId: string;
      readonly revision: number;
      readonly unknown: readonly string[];
      /** Why not all was folded, and how far it got. */
      readonly cut?: string;
      readonly checked: number;
      readonly equal: number;
      readonly different: number;
      readonly absent: number;
      /** Its rows of the same aggregates or keys; absent where it could not be asked. */
      readonly readStore?: {
        readonly equal: number;
        readonly different: number;
        readonly absent: number;
        readonly behind: number;
      };
      readonly differences: readonly {
        readonly key: string;
        readonly className: string;
        readonly version?: number;
        readonly store: 'equal' | 'different' | 'absent' | 'behind';
        readonly readStore?: 'equal' | 'different' | 'absent' | 'behind';
        /** A state as its code shapes it; null where there is none. */
        readonly stored: unknown;
        /** A state as its code shapes it; null where there is none. */
        readonly recomputed: unknown;
        /** A JSON Patch (RFC 6902); empty where only the spelling differs. */
        readonly patch: readonly {
          readonly op: 'add' | 'remove' | 'replace';
          readonly path: string;
          readonly [member: string]: unknown;
        }[];
        readonly storedFault?: Fault;
        readonly fault?: Fault;
      }[];
      readonly events: number;
      readonly seconds: number;
      readonly eventsPerSecond: number;
    };
  };
  /** Poll for changes. */
  readonly pollNotifications: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly afterSequence?: number | undefined;
      /** Only changes of these state keys. */
      readonly key?: readonly string[] | undefined;
      readonly limit?: number | undefined;
      /** How long to wait for a change where there is none. With waitFor (then up to 30): how long to wait for that, 5 unless it is given. */
      readonly waitSeconds?: number | undefined;
      /** A position of the feed, as the header Statefold-Position of a 201 tells it: the answer has all events up to there, or is 503 NOT_CAUGHT_UP. */
      readonly waitFor?: number | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly notifications: readonly Notification[];
      readonly cursor?: number;
    };
  };
  /** Follow changes as server-sent events. */
  readonly followByEvents: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly afterSequence?: number | undefined;
      /** Only changes of these state keys. */
      readonly key?: readonly string[] | undefined;
      /** The current states come first, then what changes. Not with afterSequence. */
      readonly snapshot?: boolean | undefined;
      /** A ticket of POST /auth/tickets, in place of the header X-API-Key. */
      readonly ticket?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: string;
  };
  /** Follow changes over a WebSocket (an upgrade). */
  readonly followByWebSocket: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly afterSequence?: number | undefined;
      /** Only changes of these state keys. */
      readonly key?: readonly string[] | undefined;
      /** The current states come first, then what changes. Not with afterSequence. */
      readonly snapshot?: boolean | undefined;
      /** A ticket of POST /auth/tickets, in place of the header X-API-Key. */
      readonly ticket?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** The channels of notification, in AsyncAPI. */
  readonly getAsyncApi: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly asyncapi: string;
      readonly [member: string]: unknown;
    };
  };
  /** All events of the tenant, in its one order: by pages, or as lines of JSON. */
  readonly readFeed: {
    readonly path: undefined;
    readonly query: {
      /** The last position that the client has; 0 is before the first event. */
      readonly after?: number | undefined;
      readonly aggregateType?: readonly string[] | undefined;
      readonly eventType?: readonly string[] | undefined;
      readonly aggregateId?: readonly string[] | undefined;
      /** Most events of a page, 100 unless it is given. */
      readonly limit?: number | undefined;
      /** How long to wait for an event where there is none. With waitFor: how long to wait for that, 5 unless it is given. */
      readonly waitSeconds?: number | undefined;
      /** A position of the feed, as the header Statefold-Position of a 201 tells it: the answer has all events up to there, or is 503 NOT_CAUGHT_UP. */
      readonly waitFor?: number | undefined;
      /** With Accept: application/x-ndjson or application/cloudevents+x-ndjson: the lines go on with what comes. */
      readonly follow?: boolean | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly events: readonly (FeedEvent | FeedErasure)[];
      /** Where to go on: past the last event that was read, also if the filters left it out. */
      readonly position: number;
    };
  };
  /** Follow all events of the tenant as server-sent events. */
  readonly followFeedByEvents: {
    readonly path: undefined;
    readonly query: {
      /** The last position that the client has; 0 is before the first event. */
      readonly after?: number | undefined;
      readonly aggregateType?: readonly string[] | undefined;
      readonly eventType?: readonly string[] | undefined;
      readonly aggregateId?: readonly string[] | undefined;
      /** A ticket of POST /auth/tickets, in place of the header X-API-Key. */
      readonly ticket?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: string;
  };
  /** Follow all events of the tenant over a WebSocket (an upgrade). */
  readonly followFeedByWebSocket: {
    readonly path: undefined;
    readonly query: {
      /** The last position that the client has; 0 is before the first event. */
      readonly after?: number | undefined;
      readonly aggregateType?: readonly string[] | undefined;
      readonly eventType?: readonly string[] | undefined;
      readonly aggregateId?: readonly string[] | undefined;
      /** A ticket of POST /auth/tickets, in place of the header X-API-Key. */
      readonly ticket?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** Make a ticket that opens one stream in place of the API key. */
  readonly createTicket: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: {
      /** Of the stream: /projections/{id}/stream, /projections/{id}/sse, /feed/stream or /feed/sse. */
      readonly path: string;
      /** Of a projection: the state keys that may be followed; all, unless given. */
      readonly key?: string | readonly string[] | undefined;
      /** How long it opens the stream, 60 unless given. What is open then stays open. */
      readonly expiresInSeconds?: number | undefined;
    };
    readonly answer: Ticket;
  };
  /** Rotate the webhook secret of an isolated projection. */
  readonly rotateProjectionSecret: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly projectionId: string;
      readonly webhook: {
        readonly secret: string;
        readonly isolated: true;
      };
    };
  };
  /** Rotate the shared webhook secret of the tenant. */
  readonly rotateTenantSecret: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly webhook: {
        readonly secret: string;
      };
    };
  };
  /** List webhook endpoints. */
  readonly listWebhookEndpoints: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly endpoints: readonly WebhookEndpoint[];
      readonly nextCursor?: string;
    };
  };
  /** Create a webhook endpoint. */
  readonly createWebhookEndpoint: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: {
      readonly url: string;
      /** What the endpoint is told of. */
      readonly source:
        | {
            /** Told of the changes of this projection. */
            readonly projectionId: string;
          }
        | {
            /** Told of all events of the tenant, or of those of these types. */
            readonly feed: {
              readonly aggregateTypes?: readonly string[] | undefined;
              readonly eventTypes?: readonly string[] | undefined;
            };
          };
      /** Only messages of these keys: state keys of the projection, or aggregate ids of the feed. */
      readonly keys?: readonly string[] | undefined;
      readonly description?: string | undefined;
      readonly isolateSecret?: boolean | undefined;
      readonly headers?:
        | {
            readonly [member: string]: string;
          }
        | undefined;
      /** Most attempts a second. */
      readonly ratePerSecond?: number | undefined;
      /** Where it begins: with what comes next, or with the oldest that is kept. */
      readonly from?: 'now' | 'start' | undefined;
    };
    readonly answer: NewWebhookEndpoint;
  };
  /** A webhook endpoint. */
  readonly getWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: WebhookEndpoint;
  };
  /** Change a webhook endpoint, from the next attempt on. */
  readonly changeWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: {
      readonly url?: string | undefined;
      /** What the endpoint is told of. */
      readonly source?:
        | {
            /** Told of the changes of this projection. */
            readonly projectionId: string;
          }
        | {
            /** Told of all events of the tenant, or of those of these types. */
            readonly feed: {
              readonly aggregateTypes?: readonly string[] | undefined;
              readonly eventTypes?: readonly string[] | undefined;
            };
          }
        | undefined;
      readonly keys?: readonly string[] | null | undefined;
      readonly description?: string | null | undefined;
      readonly isolateSecret?: boolean | undefined;
      readonly headers?:
        | {
            readonly [member: string]: string | null;
          }
        | null
        | undefined;
      readonly ratePerSecond?: number | null | undefined;
    };
    readonly answer: {
      readonly endpointId: string;
      readonly url: string;
      /** What the endpoint is told of. */
      readonly source:
        | {
            /** Told of the changes of this projection. */
            readonly projectionId: string;
          }
        | {
            /** Told of all events of the tenant, or of those of these types. */
            readonly feed: {
              readonly aggregateTypes?: readonly string[];
              readonly eventTypes?: readonly string[];
            };
          };
      readonly keys?: readonly string[];
      readonly description?: string;
      /** It has a secret of its own; false: it uses the shared one of the tenant. */
      readonly isolated: boolean;
      /** Of the headers that go with each attempt. Their values are not shown. */
      readonly headerNames?: readonly string[];
      readonly ratePerSecond?: number;
      /** ISO 8601, UTC, with milliseconds */
      readonly createdAt: string;
      readonly state: {
        readonly status: 'healthy' | 'failing' | 'paused' | 'disabled';
        readonly reason?: string;
        /** ISO 8601, UTC, with milliseconds */
        readonly since: string;
      };
      /** Up to this sequence or position all is delivered or parked. */
      readonly through: number;
      /** Messages past it that were taken, and are neither. */
      readonly pending: number;
      /** Messages that were given up, as GET …/parked lists them. */
      readonly parked: number;
      /** A signing secret of Standard Webhooks. */
      readonly secret?: string;
    };
  };
  /** Delete a webhook endpoint. */
  readonly deleteWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** Rotate the secret of a webhook endpoint that has one of its own. */
  readonly rotateWebhookEndpointSecret: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly endpointId: string;
      /** A signing secret of Standard Webhooks. */
      readonly secret: string;
      readonly isolated: true;
    };
  };
  /** Send a test message now, and tell what came of it. */
  readonly testWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly delivered: boolean;
      /** The `webhook-id` of the message. */
      readonly messageId: string;
      /** ISO 8601, UTC, with milliseconds */
      readonly at: string;
      /** Of HTTP; absent where there was no answer. */
      readonly status?: number;
      readonly durationMs: number;
      /** Why it failed; absent where it was delivered. */
      readonly error?: string;
      /** How the body of a refusal begins. */
      readonly responseExcerpt?: string;
    };
  };
  /** Send nothing to a webhook endpoint until it is resumed. */
  readonly pauseWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: WebhookEndpoint;
  };
  /** Go on with a webhook endpoint that was paused or disabled. */
  readonly resumeWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: WebhookEndpoint;
  };
  /** The latest attempts of a webhook endpoint, newest first. */
  readonly listWebhookAttempts: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** Only those that were delivered, that failed, or that were answered by this status of HTTP, like 503, or this class, like 5xx. */
      readonly status?: string | undefined;
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly attempts: readonly WebhookAttempt[];
      readonly nextCursor?: string;
    };
  };
  /** Messages that were given up after their last attempt, highest place first. */
  readonly listParkedMessages: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly parked: readonly ParkedMessage[];
      readonly nextCursor?: string;
    };
  };
  /** Send a message again that was given up. */
  readonly resendParkedMessage: {
    readonly path: {
      readonly id: string;
      readonly messageId: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly endpointId: string;
      readonly from: number;
      readonly to: number;
    };
  };
  /** Send all messages again that were given up, or those since a time. */
  readonly resendParkedMessages: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body:
      | {
          /** Only those that were given up then or later. */
          readonly since?: string | undefined;
        }
      | undefined;
    readonly answer: {
      readonly endpointId: string;
      /** How many are sent again. What retention has dropped is not among them. */
      readonly messages: number;
      /** The sequence or position of the first of them. */
      readonly from?: number;
      /** Of the last of them. */
      readonly to?: number;
    };
  };
  /** Attempt a message now that waits for its next attempt. */
  readonly retryWebhookMessage: {
    readonly path: {
      readonly id: string;
      readonly messageId: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly endpointId: string;
      readonly messageId: string;
    };
  };
  /** Send a range again, beside what is live. */
  readonly replayWebhookEndpoint: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: {
      readonly from: number;
      readonly to?: number | undefined;
    };
    readonly answer: {
      readonly endpointId: string;
      readonly from: number;
      readonly to: number;
    };
  };
  /** Ask the tenant’s events and states by SQL: the answer comes as ClickHouse gives it. */
  readonly querySql: {
    readonly path: undefined;
    readonly query: {
      /** A position of the feed, as the header Statefold-Position of a 201 tells it: the answer has all events up to there, or is 503 NOT_CAUGHT_UP. */
      readonly waitFor?: number | undefined;
      /** With waitFor: how long to wait for it, 5 unless it is given. */
      readonly waitSeconds?: number | undefined;
    };
    readonly body: {
      /** One statement of ClickHouse’s SQL. */
      readonly query: string;
      /** Of the answer, unless the statement ends with FORMAT: a format of ClickHouse, JSON unless it is given. */
      readonly format?: string | undefined;
      /** Values of the placeholders {name:Type} of the statement. */
      readonly parameters?:
        | {
            readonly [member: string]: string | number | boolean;
          }
        | undefined;
    };
    readonly answer: string;
  };
  /** Make an account with which a tool reads the tenant’s rows on the ClickHouse server. */
  readonly createSqlAccount: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: {
      /** What it is for. */
      readonly name?: string | undefined;
    };
    readonly answer: NewSqlAccount;
  };
  /** List the accounts for SQL. */
  readonly listSqlAccounts: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly accounts: readonly SqlAccount[];
      readonly nextCursor?: string;
    };
  };
  /** Delete an account for SQL: who is connected with it reads nothing more. */
  readonly deleteSqlAccount: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** What the states of bound reducers and of projections are. */
  readonly listStateTypes: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly states: readonly StateType[];
      readonly nextCursor?: string;
    };
  };
  /** The tenant of the API key, and what the key may be used for. */
  readonly whoami: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: WhoAmI;
  };
  /** Whether the process answers. */
  readonly getHealth: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly status: 'ok';
    };
  };
  /** Whether the service can do its work. */
  readonly getReadiness: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly status: 'ready';
      readonly checks: {
        readonly [member: string]: 'up' | 'starting' | 'degraded' | 'down';
      };
    };
  };
  /** This document. */
  readonly getOpenApi: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly openapi: string;
      readonly [member: string]: unknown;
    };
  };
  /** Metrics in the text format of Prometheus. */
  readonly getMetrics: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: string;
  };
  /** List tenants. */
  readonly listTenants: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly tenants: readonly Tenant[];
      readonly nextCursor?: string;
    };
  };
  /** Create a tenant with a key. */
  readonly createTenant: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: {
      readonly name?: string | undefined;
      readonly tenantId?: string | undefined;
      readonly partitions?: number | undefined;
    };
    readonly answer: NewTenant;
  };
  /** A tenant. */
  readonly getTenant: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Tenant;
  };
  /** Rename a tenant, suspend it, or set its quotas. */
  readonly changeTenant: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: {
      readonly name?: string | undefined;
      readonly suspended?: boolean | undefined;
      readonly quotas?:
        | {
            readonly requestsPerSecond?: number | null | undefined;
            readonly eventsPerSecond?: number | null | undefined;
            readonly storageBytes?: number | null | undefined;
            readonly projections?: number | null | undefined;
            readonly reducers?: number | null | undefined;
            readonly connections?: number | null | undefined;
            readonly pendingUploads?: number | null | undefined;
          }
        | undefined;
    };
    readonly answer: Tenant;
  };
  /** Delete a tenant and all it has. */
  readonly deleteTenant: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** Take the events of a tenant from elsewhere into an empty one, as CloudEvents: all of them or none. */
  readonly importEvents: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: string;
    readonly answer: Imported;
  };
  /** List the keys of a tenant. */
  readonly listKeys: {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly keys: readonly Key[];
      readonly nextCursor?: string;
    };
  };
  /** Create a key. */
  readonly createKey: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body:
      | {
          readonly name?: string | undefined;
          readonly scopes?: readonly string[] | undefined;
          readonly expiresAt?: string | undefined;
        }
      | undefined;
    readonly answer: NewKey;
  };
  /** Revoke a key. */
  readonly revokeKey: {
    readonly path: {
      readonly id: string;
      readonly keyId: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** How to connect to the read store. */
  readonly getReadStoreAccess: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: ReadStoreAccess;
  };
  /** Rebuild the read store from the log, of one tenant or of all. */
  readonly rebuildReadStore: {
    readonly path: undefined;
    readonly query: {
      readonly tenantId?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly status: 'rebuilding';
    };
  };
  /** Call off the rebuild of the read store: its tables stay as they are. */
  readonly cancelReadStoreRebuild: {
    readonly path: undefined;
    readonly query: {
      /** One of GET /admin/processes, whose rebuild it is; unless given, of all of them. */
      readonly url?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: undefined;
  };
  /** What the tenant has, and what it may have. */
  readonly getUsage: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Usage;
  };
  /** What a tenant has, and what it may have. */
  readonly getTenantUsage: {
    readonly path: {
      readonly id: string;
    };
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: Usage;
  };
  /** The processes of the service, and their slots. */
  readonly listProcesses: {
    readonly path: undefined;
    readonly query: undefined;
    readonly body: undefined;
    readonly answer: {
      readonly processes: readonly Process[];
    };
  };
  /** How a process does, and has done in the last hour. */
  readonly getProcessActivity: {
    readonly path: undefined;
    readonly query: {
      /** One of GET /admin/processes; unless given, the one that answers. */
      readonly url?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: ProcessActivity;
  };
  /** What was changed of the tenant and by which key, the newest first. */
  readonly listAudit: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
      /** Of this action, as projection.rollback, or of all of a kind, as projection. */
      readonly action?: string | undefined;
      /** That the key with this keyId asked for; admin: the admin key; service: the service, by itself. */
      readonly key?: string | undefined;
      readonly outcome?: 'done' | 'refused' | 'failed' | 'unknown' | undefined;
      /** Whose object has this id. */
      readonly object?: string | undefined;
      /** That began at this time or later. */
      readonly from?: string | undefined;
      /** That began before this time. */
      readonly to?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly entries: readonly AuditRecord[];
      readonly nextCursor?: string;
    };
  };
  /** What was changed and by which key, of one tenant or of all, the newest first. */
  readonly listAllAudit: {
    readonly path: undefined;
    readonly query: {
      readonly limit?: number | undefined;
      readonly cursor?: string | undefined;
      /** Of this action, as projection.rollback, or of all of a kind, as projection. */
      readonly action?: string | undefined;
      /** That the key with this keyId asked for; admin: the admin key; service: the service, by itself. */
      readonly key?: string | undefined;
      readonly outcome?: 'done' | 'refused' | 'failed' | 'unknown' | undefined;
      /** Whose object has this id. */
      readonly object?: string | undefined;
      /** That began at this time or later. */
      readonly from?: string | undefined;
      /** That began before this time. */
      readonly to?: string | undefined;
      /** Of this tenant alone, also of one that was deleted. */
      readonly tenant?: string | undefined;
    };
    readonly body: undefined;
    readonly answer: {
      readonly entries: readonly AuditRecord[];
      readonly nextCursor?: string;
    };
  };
}

export type OperationId = keyof Operations;

/** Where each operation is, and whose key it takes. */
export const OPERATIONS = {
  appendEvent: { method: 'POST', path: '/events', key: 'tenant' },
  appendBatch: { method: 'POST', path: '/events/batch', key: 'tenant' },
  appendTransaction: { method: 'POST', path: '/events/transaction', key: 'tenant' },
  appendBulk: { method: 'POST', path: '/events/bulk', key: 'tenant' },
  listEvents: { method: 'GET', path: '/events/{aggregateId}', key: 'tenant' },
  listEventTypes: { method: 'GET', path: '/event-types', key: 'tenant' },
  getEventType: { method: 'GET', path: '/event-types/{type}', key: 'tenant' },
  setEventSchema: { method: 'PUT', path: '/event-types/{type}', key: 'tenant' },
  deleteEventSchema: { method: 'DELETE', path: '/event-types/{type}', key: 'tenant' },
  listAggregates: { method: 'GET', path: '/aggregates', key: 'tenant' },
  eraseAggregate: { method: 'DELETE', path: '/aggregates/{aggregateId}', key: 'tenant' },
  listAggregateTypes: { method: 'GET', path: '/aggregate-types', key: 'tenant' },
  getBinding: { method: 'GET', path: '/aggregate-types/{type}', key: 'tenant' },
  bindReducer: { method: 'PUT', path: '/aggregate-types/{type}', key: 'tenant' },
  getBindingHistory: { method: 'GET', path: '/aggregate-types/{type}/history', key: 'tenant' },
  getAggregateState: { method: 'GET', path: '/aggregate-types/{type}/{id}/state', key: 'tenant' },
  listAggregateFaults: { method: 'GET', path: '/aggregate-types/{type}/faults', key: 'tenant' },
  retryAggregate: { method: 'POST', path: '/aggregate-types/{type}/{id}/retry', key: 'tenant' },
  skipAggregate: { method: 'POST', path: '/aggregate-types/{type}/{id}/skip', key: 'tenant' },
  listKeyFaults: { method: 'GET', path: '/projections/{id}/faults', key: 'tenant' },
  retryKeys: { method: 'POST', path: '/projections/{id}/retry', key: 'tenant' },
  skipKeys: { method: 'POST', path: '/projections/{id}/skip', key: 'tenant' },
  retryKey: { method: 'POST', path: '/projections/{id}/states/{key}/retry', key: 'tenant' },
  skipKey: { method: 'POST', path: '/projections/{id}/states/{key}/skip', key: 'tenant' },
  listReducers: { method: 'GET', path: '/reducers', key: 'tenant' },
  uploadReducer: { method: 'POST', path: '/reducers/upload', key: 'tenant' },
  deleteReducer: { method: 'DELETE', path: '/reducers/{id}', key: 'tenant' },
  getReducer: { method: 'GET', path: '/reducers/{id}/status', key: 'tenant' },
  getReducerSources: { method: 'GET', path: '/reducers/{id}/sources', key: 'tenant' },
  reviveReducer: { method: 'POST', path: '/reducers/{id}/revive', key: 'tenant' },
  listProjections: { method: 'GET', path: '/projections', key: 'tenant' },
  uploadProjection: { method: 'POST', path: '/projections/upload', key: 'tenant' },
  configureProjection: { method: 'PUT', path: '/projections/{id}/config', key: 'tenant' },
  deleteProjection: { method: 'DELETE', path: '/projections/{id}', key: 'tenant' },
  getProjection: { method: 'GET', path: '/projections/{id}/status', key: 'tenant' },
  listStates: { method: 'GET', path: '/projections/{id}/states', key: 'tenant' },
  getStates: { method: 'GET', path: '/projections/{id}/states/{key}', key: 'tenant' },
  listRevisions: { method: 'GET', path: '/projections/{id}/revisions', key: 'tenant' },
  getRevisionSources: { method: 'GET', path: '/projections/{id}/revisions/{revision}/sources', key: 'tenant' },
  rollbackProjection: { method: 'POST', path: '/projections/{id}/rollback', key: 'tenant' },
  rebuildProjection: { method: 'POST', path: '/projections/{id}/rebuild', key: 'tenant' },
  reviveProjection: { method: 'POST', path: '/projections/{id}/revive', key: 'tenant' },
  cancelBuild: { method: 'DELETE', path: '/projections/{id}/build', key: 'tenant' },
  checkReducer: { method: 'POST', path: '/reducers/check', key: 'tenant' },
  checkProjection: { method: 'POST', path: '/projections/check', key: 'tenant' },
  runFixtures: { method: 'POST', path: '/fixtures/run', key: 'tenant' },
  dryRunReducers: { method: 'POST', path: '/reducers/dry-run', key: 'tenant' },
  dryRunProjection: { method: 'POST', path: '/projections/dry-run', key: 'tenant' },
  verifyAggregates: { method: 'POST', path: '/aggregate-types/{type}/verify', key: 'tenant' },
  verifyProjection: { method: 'POST', path: '/projections/{id}/verify', key: 'tenant' },
  pollNotifications: { method: 'GET', path: '/projections/{id}/notifications', key: 'tenant' },
  followByEvents: { method: 'GET', path: '/projections/{id}/sse', key: 'tenant' },
  followByWebSocket: { method: 'GET', path: '/projections/{id}/stream', key: 'tenant' },
  getAsyncApi: { method: 'GET', path: '/asyncapi.json', key: 'none' },
  readFeed: { method: 'GET', path: '/feed', key: 'tenant' },
  followFeedByEvents: { method: 'GET', path: '/feed/sse', key: 'tenant' },
  followFeedByWebSocket: { method: 'GET', path: '/feed/stream', key: 'tenant' },
  createTicket: { method: 'POST', path: '/auth/tickets', key: 'tenant' },
  rotateProjectionSecret: { method: 'POST', path: '/projections/{id}/webhook/rotate', key: 'tenant' },
  rotateTenantSecret: { method: 'POST', path: '/webhooks/rotate', key: 'tenant' },
  listWebhookEndpoints: { method: 'GET', path: '/webhooks/endpoints', key: 'tenant' },
  createWebhookEndpoint: { method: 'POST', path: '/webhooks/endpoints', key: 'tenant' },
  getWebhookEndpoint: { method: 'GET', path: '/webhooks/endpoints/{id}', key: 'tenant' },
  changeWebhookEndpoint: { method: 'PATCH', path: '/webhooks/endpoints/{id}', key: 'tenant' },
  deleteWebhookEndpoint: { method: 'DELETE', path: '/webhooks/endpoints/{id}', key: 'tenant' },
  rotateWebhookEndpointSecret: { method: 'POST', path: '/webhooks/endpoints/{id}/rotate', key: 'tenant' },
  testWebhookEndpoint: { method: 'POST', path: '/webhooks/endpoints/{id}/test', key: 'tenant' },
  pauseWebhookEndpoint: { method: 'POST', path: '/webhooks/endpoints/{id}/pause', key: 'tenant' },
  resumeWebhookEndpoint: { method: 'POST', path: '/webhooks/endpoints/{id}/resume', key: 'tenant' },
  listWebhookAttempts: { method: 'GET', path: '/webhooks/endpoints/{id}/attempts', key: 'tenant' },
  listParkedMessages: { method: 'GET', path: '/webhooks/endpoints/{id}/parked', key: 'tenant' },
  resendParkedMessage: { method: 'POST', path: '/webhooks/endpoints/{id}/parked/{messageId}/resend', key: 'tenant' },
  resendParkedMessages: { method: 'POST', path: '/webhooks/endpoints/{id}/parked/resend', key: 'tenant' },
  retryWebhookMessage: { method: 'POST', path: '/webhooks/endpoints/{id}/messages/{messageId}/retry', key: 'tenant' },
  replayWebhookEndpoint: { method: 'POST', path: '/webhooks/endpoints/{id}/replay', key: 'tenant' },
  querySql: { method: 'POST', path: '/sql', key: 'tenant' },
  createSqlAccount: { method: 'POST', path: '/sql/accounts', key: 'tenant' },
  listSqlAccounts: { method: 'GET', path: '/sql/accounts', key: 'tenant' },
  deleteSqlAccount: { method: 'DELETE', path: '/sql/accounts/{id}', key: 'tenant' },
  listStateTypes: { method: 'GET', path: '/state-types', key: 'tenant' },
  whoami: { method: 'GET', path: '/auth/whoami', key: 'tenant' },
  getHealth: { method: 'GET', path: '/health', key: 'none' },
  getReadiness: { method: 'GET', path: '/health/ready', key: 'none' },
  getOpenApi: { method: 'GET', path: '/openapi.json', key: 'none' },
  getMetrics: { method: 'GET', path: '/metrics', key: 'admin' },
  listTenants: { method: 'GET', path: '/admin/tenants', key: 'admin' },
  createTenant: { method: 'POST', path: '/admin/tenants', key: 'admin' },
  getTenant: { method: 'GET', path: '/admin/tenants/{id}', key: 'admin' },
  changeTenant: { method: 'PATCH', path: '/admin/tenants/{id}', key: 'admin' },
  deleteTenant: { method: 'DELETE', path: '/admin/tenants/{id}', key: 'admin' },
  importEvents: { method: 'POST', path: '/admin/tenants/{id}/import', key: 'admin' },
  listKeys: { method: 'GET', path: '/admin/tenants/{id}/keys', key: 'admin' },
  createKey: { method: 'POST', path: '/admin/tenants/{id}/keys', key: 'admin' },
  revokeKey: { method: 'DELETE', path: '/admin/tenants/{id}/keys/{keyId}', key: 'admin' },
  getReadStoreAccess: { method: 'GET', path: '/admin/read-store', key: 'admin' },
  rebuildReadStore: { method: 'POST', path: '/admin/read-store/rebuild', key: 'admin' },
  cancelReadStoreRebuild: { method: 'DELETE', path: '/admin/read-store/rebuild', key: 'admin' },
  getUsage: { method: 'GET', path: '/usage', key: 'tenant' },
  getTenantUsage: { method: 'GET', path: '/admin/tenants/{id}/usage', key: 'admin' },
  listProcesses: { method: 'GET', path: '/admin/processes', key: 'admin' },
  getProcessActivity: { method: 'GET', path: '/admin/processes/activity', key: 'admin' },
  listAudit: { method: 'GET', path: '/audit', key: 'tenant' },
  listAllAudit: { method: 'GET', path: '/admin/audit', key: 'admin' },
} as const satisfies Readonly<
  Record<OperationId, { readonly method: string; readonly path: string; readonly key: 'tenant' | 'admin' | 'none' }>
>;
