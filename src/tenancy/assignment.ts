import type { Ownership } from '../placement/ownership.js';
import { backOff } from '../core/back-off.js';
import { NotOwnerError, StatefoldError } from '../core/errors.js';
import { tenantOfKey } from '../core/slots.js';
import type { Logger } from '../core/logger.js';
import type { SlotTasks } from './tenant-registry.js';

export interface AssignmentOptions {
  readonly ownership: Ownership;
  readonly tenants: SlotTasks;
  /** Slot keys of what is active somewhere in the cluster. */
  readonly activity: { keys(): readonly string[] };
  readonly standbys: boolean;
  /** Tenants whose changes are wanted here, whoever owns them. */
  readonly notified: {
    readonly wanted: readonly string[];
    wants(slotKey: string): boolean;
    onUnwanted(listener: (slotKey: string) => void): void;
  };
  readonly logger: Logger;
  /** The slots of this process changed, and its tasks are being brought in line. */
  readonly onReassigned: () => void;
}

/** Tenants that are opened or followed at once after a change. */
const AT_ONCE = 4;
/** What is to be here and could not be had is tried again after so long. */
const RETRY_MS = { first: 2000, last: 30_000 };

/** Brings the tasks of this process in line with its slots: closes what is another's, takes what is ours, keeps standbys. */
export class Assignment {
  readonly #options: AssignmentOptions;
  readonly #queue = new Set<string>();
  /** How often in a row what is to be here could not be had. */
  readonly #failures = new Map<string, number>();
  /** Slot keys that wait for their next try. */
  readonly #waiting = new Map<string, NodeJS.Timeout>();
  #running = 0;
  #closed = false;

  constructor(options: AssignmentOptions) {
    this.#options = options;
    options.ownership.onChange(() => this.reassign());
    options.tenants.onStopped((slotKey, deposed) => {
      if (this.#isMissed(slotKey)) this.#again(slotKey);
      // Until this process learns that a slot is another's it would claim back what that has claimed, again and again.
      else if (options.ownership.owns(slotKey)) this.#again(slotKey, deposed ? RETRY_MS.last : undefined);
    });
    options.notified.onUnwanted((slotKey) => this.consider(slotKey));
  }

  reassign(): void {
    if (this.#closed) return;
    const { tenants, activity, ownership, notified, onReassigned } = this.#options;
    for (const slotKey of tenants.activeKeys) if (!ownership.owns(slotKey)) this.#release(slotKey);
    for (const slotKey of tenants.standbyKeys) this.consider(slotKey);
    for (const slotKey of activity.keys()) this.consider(slotKey);
    for (const slotKey of notified.wanted) this.consider(slotKey);
    onReassigned();
  }

  /** What went to another process is closed at once, and waits for nothing that is being opened: its new owner's appends wait for it. */
  #release(slotKey: string): void {
    const { tenants, ownership } = this.#options;
    if (ownership.ownerOf(slotKey) === undefined) return;
    void tenants.passivate(slotKey).then(() => this.consider(slotKey));
  }

  /** The tenant is active somewhere, or may be another's by now. */
  consider(slotKey: string): void {
    if (this.#closed) return;
    this.#queue.add(slotKey);
    // A partition that is active somewhere is for its tenant's own task too.
    this.#queue.add(tenantOfKey(slotKey));
    while (this.#running < AT_ONCE && this.#queue.size > 0) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running++;
    for (const slotKey of this.#queue) {
      this.#queue.delete(slotKey);
      let fails = false;
      try {
        await this.#align(slotKey);
      } catch (error) {
        // The registry has said so where it could not be restored, and says when it is.
        this.#options.logger.debug({ err: error, slotKey }, 'a tenant was not brought in line with its slot');
        fails = this.#options.ownership.owns(slotKey) && mayWorkLater(error);
      }
      if (fails || this.#isMissed(slotKey)) this.#again(slotKey);
      else this.#failures.delete(slotKey);
    }
    this.#running--;
  }

  async #align(slotKey: string): Promise<void> {
    const { tenants, ownership, standbys, notified } = this.#options;
    const owner = ownership.ownerOf(slotKey);
    if (this.#closed || owner === undefined) return;
    if (owner === 'self') {
      await tenants.open(slotKey);
      return;
    }
    if (tenants.activeKeys.includes(slotKey)) await tenants.passivate(slotKey);
    if ((standbys && ownership.standsBy(slotKey)) || notified.wants(slotKey)) await tenants.standBy(slotKey);
    else await tenants.passivate(slotKey);
  }

  /** It may be another's by then, or be had again. */
  #again(slotKey: string, afterMs?: number): void {
    if (this.#closed || this.#waiting.has(slotKey)) return;
    const failures = this.#failures.get(slotKey) ?? 0;
    this.#failures.set(slotKey, failures + 1);
    const retry = (): void => {
      this.#waiting.delete(slotKey);
      this.consider(slotKey);
    };
    this.#waiting.set(slotKey, setTimeout(retry, afterMs ?? backOff(failures, RETRY_MS)).unref());
  }

  /** Its changes are awaited here, and there is nothing that they would come from. */
  #isMissed(slotKey: string): boolean {
    const { tenants, notified } = this.#options;
    return (
      !this.#closed &&
      notified.wants(slotKey) &&
      !tenants.activeKeys.includes(slotKey) &&
      !tenants.standbyKeys.includes(slotKey)
    );
  }

  close(): void {
    this.#closed = true;
    this.#queue.clear();
    for (const timer of this.#waiting.values()) clearTimeout(timer);
    this.#waiting.clear();
  }
}

/** Not where there is no such tenant, or where it is suspended: who changes that opens it. */
const mayWorkLater = (error: unknown): boolean =>
  error instanceof NotOwnerError || !(error instanceof StatefoldError) || error.retryable;
