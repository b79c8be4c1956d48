/**
 * Who serves which tenant. Tenants spread over slots, slots over the processes of the role `tasks`;
 * each slot has one process of the role `notifier` too, which need not be the owner. What is said here is a hint:
 * for a while two processes may each believe that a tenant is theirs. The claim in the log decides.
 */
export interface Ownership {
  /** How many slots there are, fixed for the life of the cluster. */
  readonly slots: number;
  /** Who serves what has the slot key now: a tenant's id, or a partition of one. */
  ownerOf(slotKey: string): Owner;
  /** This process serves it: `ownerOf` is `self`. */
  owns(slotKey: string): boolean;
  /** This process keeps a standby of it, to take it over within milliseconds. */
  standsBy(slotKey: string): boolean;
  /** This process tells clients of the tenant's changes: it sends its webhooks. False where another does, none is known, or none has the role. */
  notifies(tenantId: string): boolean;
  /** Who serves the tenant's polls, WebSockets and SSE: who notifies, or the owner where no process has the role. */
  notifierOf(tenantId: string): Owner;
  /** Another process is known to serve them; false also while none is known. */
  notifiedElsewhere(tenantId: string): boolean;
  /** How the slots are spread, as far as this process knows; those that nobody has are in none of them. */
  shares(): readonly SlotShare[];
  /** Called after each change of the assignment, when `ownerOf` answers by the new one. */
  onChange(listener: () => void): void;
  /** Resolves at the next change of the assignment, or after so many milliseconds. */
  changed(withinMs: number): Promise<void>;
  /** Gives up all slots, so that others take them; this process goes on serving what it has until they have claimed it. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

/** `self`; the base URL of another process; or undefined while none is known (a rebalance, or no process has the role). */
export type Owner = 'self' | { readonly url: string } | undefined;

/** Slots of one process, counted. */
export interface SlotShare {
  readonly process: Exclude<Owner, undefined>;
  readonly owned: number;
  readonly standbys: number;
  readonly notified: number;
}
