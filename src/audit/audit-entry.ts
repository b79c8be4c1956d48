import type { Turn } from '../core/turns.js';

/** Who asked: a key of a tenant, the admin key, or the service itself. */
export interface AuditActor {
  /** Of a tenant's key; `admin` is the admin key, `service` the service itself. Never the key itself. */
  readonly keyId: string;
  readonly keyName?: string | undefined;
}

/** Nobody asked: the service does it by itself. */
export const SERVICE: AuditActor = { keyId: 'service', keyName: 'service' };

/** A change that is about to be made. */
export interface AuditBegun extends AuditActor {
  /** Undefined: it is none of one tenant, as a rebuild of all rows is. */
  readonly tenantId?: string | undefined;
  /** Which of the tenants that had this id: when it was created. Unknown while it is being created. */
  readonly tenantCreatedAt?: string | undefined;
  /** What is done to what, e.g. `projection.rollback`. */
  readonly action: string;
  /** What it is done to, by its kind's name, e.g. `{ projectionId }`. */
  readonly object: Readonly<Record<string, string>>;
  /** What was asked for, where it is no secret. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  /** Of what the service does by itself an id of its own. */
  readonly requestId: string;
  readonly remoteAddress?: string | undefined;
}

/** How it came out. */
export interface AuditOutcome {
  /** `unknown`: the process ended, or the log was away, before it could be recorded; the change may have been made. */
  readonly outcome: 'done' | 'refused' | 'failed' | 'unknown';
  /** HTTP. */
  readonly status?: number | undefined;
  /** Of an error. */
  readonly code?: string | undefined;
}

export interface AuditEntry extends AuditBegun, AuditOutcome {
  readonly id: string;
  /** ISO 8601: when it began. */
  readonly at: string;
  readonly endedAt?: string | undefined;
}

/** What is known of a change once it is over. */
export type AuditEnded = Omit<AuditOutcome, 'outcome'> & {
  readonly outcome: 'done' | 'refused' | 'failed';
  readonly tenantId?: string | undefined;
  readonly tenantCreatedAt?: string | undefined;
  /** Ids that were given by it. */
  readonly object?: Readonly<Record<string, string>> | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
};

/** A change under way. */
export interface AuditRecording {
  /** Resolves when it is durable, or can't be made so: then the entry stays `unknown`. Never rejects. */
  end(ended: AuditEnded): Promise<void>;
}

export interface AuditFilter {
  readonly tenantId?: string | undefined;
  /** With `tenantId`: of the tenant that was created then, and of no other of that id. */
  readonly tenantCreatedAt?: string | undefined;
  /** Alone, as `projection.rollback`, or all of a kind, as `projection`. */
  readonly action?: string | undefined;
  readonly keyId?: string | undefined;
  readonly outcome?: AuditOutcome['outcome'] | undefined;
  /** What it was done to, or made: any id of its object. */
  readonly objectId?: string | undefined;
  /** When it began, in milliseconds since the epoch: from then on. */
  readonly from?: number | undefined;
  /** Exclusive. */
  readonly to?: number | undefined;
  /** Entries before this place, which an answer gave as `next`; from the newest on without it. */
  readonly before?: number | undefined;
  readonly limit: number;
}

export interface AuditPage {
  /** The newest first: JSON of several entries each, with commas between them. */
  readonly entries: readonly Buffer[];
  /** Where older ones are, if any: a page may end before its limit is reached. */
  readonly next: number | undefined;
}

/**
 * Changes that keys have made, and the service by itself. An entry begins durably before its change is begun, so no change is made without one; how it came
 * out is durable before the caller is answered, or stays unknown.
 */
export interface AuditTrail {
  /** @throws StatefoldError UNAVAILABLE where it can't be recorded: then nothing is to be changed */
  begin(begun: AuditBegun): Promise<AuditRecording>;
  /**
   * Looks at many entries, of all tenants, for few: a part on each turn, the next one of the event loop unless given. `shown`: what is
   * told of an entry. @throws StatefoldError UNAVAILABLE
   */
  list(filter: AuditFilter, turn?: Turn, shown?: (entry: AuditEntry) => object): Promise<AuditPage>;
}
