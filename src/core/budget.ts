import { StatefoldError } from './errors.js';
import { SharedCache } from './shared-cache.js';

/** What memory is held for. `docs/reference/limits.md` says of each what happens past its share. */
export const BUDGET_KINDS = [
  'appends',
  'folds',
  'catch_ups',
  'changes',
  'entries',
  'answers',
  'streams',
  'webhooks',
  'uploads',
] as const;
export type BudgetKind = (typeof BUDGET_KINDS)[number];

/** Whose budget is spent. */
export type BudgetOwner = 'tenant' | 'process';

/** Of a budget, the most that one kind may take, so that none leaves nothing to the others: slow readers do not refuse appends. */
const SHARES: Readonly<Record<BudgetKind, number>> = {
  appends: 1 / 2,
  folds: 1 / 4,
  catch_ups: 1 / 8,
  changes: 1 / 4,
  entries: 1 / 2,
  answers: 1 / 4,
  streams: 1 / 8,
  webhooks: 1 / 8,
  uploads: 1 / 4,
};

/**
 * Of what the process has left, a tenant that holds more than this many times as much is given no more of it. So the tenants that
 * hold much leave some room, however many they are, to those that hold little; and one alone comes to two thirds of the process's.
 */
const OF_WHAT_IS_LEFT = 2;

/** As an error says it. */
const NAMES: Readonly<Record<BudgetKind, string>> = {
  appends: 'appends that wait for the log',
  folds: 'events that wait for their reducers',
  catch_ups: 'history that reducers fold again',
  changes: 'changes of projections that are being written',
  entries: 'entries that the local disk has not taken',
  answers: 'answers that their clients have not read',
  streams: 'pushed changes that their clients have not read',
  webhooks: 'webhooks that are not delivered',
  uploads: 'uploads and other bodies that are being read',
};

const INDEX = Object.fromEntries(BUDGET_KINDS.map((kind, i) => [kind, i])) as Readonly<Record<BudgetKind, number>>;
const RETRY_AFTER_SECONDS = 1;
/** What each kind of cache may take beside a process's budget, as a part of it. */
const CACHE_SHARE = 1 / 8;

export interface BudgetLimits {
  /** Bytes that this process holds for all tenants together. */
  readonly processBytes: number;
  /** Bytes that it holds for one. */
  readonly tenantBytes: number;
}

/** What is held of one budget, by kind. */
class Account {
  readonly limit: number;
  readonly held = new Float64Array(BUDGET_KINDS.length);
  readonly shares: Float64Array;
  total = 0;

  constructor(limit: number) {
    this.limit = limit;
    this.shares = Float64Array.from(BUDGET_KINDS, (kind) => limit * SHARES[kind]);
  }

  /** One item of any size passes where nothing else of its kind is held: else it never would. */
  takes(kind: number, bytes: number): boolean {
    const held = this.held[kind] ?? 0;
    return held === 0 || (held + bytes <= (this.shares[kind] ?? 0) && this.total + bytes <= this.limit);
  }

  isFull(kind: number): boolean {
    return (this.held[kind] ?? 0) >= (this.shares[kind] ?? 0) || this.total >= this.limit;
  }

  /** Whether a tenant with this account has so much that the rest of this one is for others. */
  keepsFrom(tenant: Account, kind: number): boolean {
    const held = tenant.held[kind] ?? 0;
    return (
      held > 0 &&
      (held >= OF_WHAT_IS_LEFT * ((this.shares[kind] ?? 0) - (this.held[kind] ?? 0)) ||
        tenant.total >= OF_WHAT_IS_LEFT * (this.limit - this.total))
    );
  }

  add(kind: number, bytes: number): void {
    this.held[kind] = (this.held[kind] ?? 0) + bytes;
    this.total += bytes;
  }
}

interface Waiter {
  readonly bytes: number;
  readonly give: () => void;
}

/**
 * What one process may hold in memory for its tenants, in bytes, and how much of it for one. Estimates of what is there, not
 * measurements; each operation takes the same time however much is held.
 */
export class MemoryBudget {
  readonly limits: BudgetLimits;
  readonly account: Account;
  /** Beside the budget, of all tenants together: what the local store wrote last, and the last events and changes. */
  readonly caches: { readonly rows: SharedCache; readonly tails: SharedCache };
  readonly #tenants = new Map<string, TenantBudget>();
  readonly #refusals: Readonly<Record<BudgetOwner, Float64Array>> = {
    tenant: new Float64Array(BUDGET_KINDS.length),
    process: new Float64Array(BUDGET_KINDS.length),
  };
  /** Tenants for which someone waits for room. */
  readonly #awaited = new Set<TenantBudget>();
  #pumping = false;

  constructor(limits: BudgetLimits) {
    this.limits = limits;
    this.account = new Account(limits.processBytes);
    const cache = (): SharedCache => new SharedCache(limits.processBytes * CACHE_SHARE);
    this.caches = { rows: cache(), tails: cache() };
  }

  /** The same object each time, until the tenant is forgotten. */
  tenant(tenantId: string): TenantBudget {
    let budget = this.#tenants.get(tenantId);
    if (budget === undefined) this.#tenants.set(tenantId, (budget = new TenantBudget(this)));
    return budget;
  }

  /** The tenant was deleted. What is still held of it stays in the sum of the process until it is given back. */
  forget(tenantId: string): void {
    this.#tenants.delete(tenantId);
  }

  /** Bytes that are held, of one kind or of all. */
  held(kind?: BudgetKind): number {
    return kind === undefined ? this.account.total : (this.account.held[INDEX[kind]] ?? 0);
  }

  /** Of the tenant that holds most. */
  get largestTenant(): number {
    let largest = 0;
    for (const { account } of this.#tenants.values()) largest = Math.max(largest, account.total);
    return largest;
  }

  /** Times that something was refused, dropped or held up since one of the budgets was spent. */
  refusals(kind: BudgetKind, owner: BudgetOwner): number {
    return this.#refusals[owner][INDEX[kind]] ?? 0;
  }

  countRefusal(kind: BudgetKind, owner: BudgetOwner): void {
    const counts = this.#refusals[owner];
    counts[INDEX[kind]] = (counts[INDEX[kind]] ?? 0) + 1;
  }

  await(budget: TenantBudget): void {
    this.#awaited.add(budget);
  }

  /** Something was given back: those who wait are looked at once a turn. */
  released(): void {
    if (this.#awaited.size === 0 || this.#pumping) return;
    this.#pumping = true;
    queueMicrotask(() => {
      this.#pumping = false;
      for (const budget of [...this.#awaited]) {
        this.#awaited.delete(budget);
        // Who is still there goes to the end: tenants take turns.
        if (budget.pump()) this.#awaited.add(budget);
      }
    });
  }
}

/** What is held for one tenant. */
export class TenantBudget {
  readonly process: MemoryBudget;
  readonly account: Account;
  /** By kind, in their order: of each the first one alone is looked at, so that what many wait for costs no more than what one does. */
  readonly #waiters: readonly Set<Waiter>[] = BUDGET_KINDS.map(() => new Set<Waiter>());

  constructor(process: MemoryBudget) {
    this.process = process;
    this.account = new Account(process.limits.tenantBytes);
  }

  /** Bytes of one kind or of all. */
  held(kind?: BudgetKind): number {
    return kind === undefined ? this.account.total : (this.account.held[INDEX[kind]] ?? 0);
  }

  /** Holds nothing yet. Whoever has it closes it. */
  hold(kind: BudgetKind): Hold {
    return new Hold(this, kind);
  }

  /** Which budget is spent for this kind; undefined: there is room. */
  full(kind: BudgetKind): BudgetOwner | undefined {
    const index = INDEX[kind];
    if (this.account.isFull(index)) return 'tenant';
    const { account } = this.process;
    return account.isFull(index) || account.keepsFrom(this.account, index) ? 'process' : undefined;
  }

  /** Which budget does not take so many bytes more. */
  refuses(kind: BudgetKind, bytes: number): BudgetOwner | undefined {
    const index = INDEX[kind];
    return this.#refuses(index, bytes);
  }

  #refuses(kind: number, bytes: number): BudgetOwner | undefined {
    if (!this.account.takes(kind, bytes)) return 'tenant';
    const { account } = this.process;
    return account.takes(kind, bytes) && !account.keepsFrom(this.account, kind) ? undefined : 'process';
  }

  /** The refusal of a request, which is counted: RATE_LIMITED where the tenant has too much under way, else UNAVAILABLE. */
  refusal(kind: BudgetKind, owner: BudgetOwner): StatefoldError {
    this.process.countRefusal(kind, owner);
    return owner === 'tenant'
      ? new StatefoldError(
          'RATE_LIMITED',
          `this tenant has too much under way at once: ${NAMES[kind]} take all the memory that they may; send the request again when some of it is done`,
          { retryAfterSeconds: RETRY_AFTER_SECONDS },
        )
      : new StatefoldError(
          'UNAVAILABLE',
          `this process has too much under way at once: ${NAMES[kind]} take all the memory that they may; send the request again later`,
          { retryAfterSeconds: RETRY_AFTER_SECONDS },
        );
  }

  /** How many wait for room, of one kind. */
  waiting(kind: BudgetKind): number {
    return this.#waiters[INDEX[kind]]?.size ?? 0;
  }

  /**
   * Resolves with so many bytes held as soon as there is room; those of one tenant and kind in their order. `begin` is called where
   * it has to wait, and may refuse that by an error; what it gives is called when the wait is over.
   * @throws StatefoldError RATE_LIMITED, UNAVAILABLE when there is none in time; what `begin` throws
   */
  async acquire(kind: BudgetKind, bytes: number, milliseconds: number, begin?: () => () => void): Promise<Hold> {
    const hold = this.hold(kind);
    const index = INDEX[kind];
    const waiters = this.#waiters[index] as Set<Waiter>;
    if (waiters.size === 0 && hold.tryAdd(bytes)) return hold;
    const end = begin?.();
    const given = await new Promise<boolean>((resolve) => {
      const waiter: Waiter = {
        bytes,
        give: () => {
          clearTimeout(timer);
          hold.add(bytes);
          resolve(true);
        },
      };
      const timer = setTimeout(() => {
        const [first] = waiters;
        waiters.delete(waiter);
        resolve(false);
        // For those behind it there may be room; nothing was given back, so nobody else has more than before.
        if (first === waiter) this.#pump(index, waiters);
      }, milliseconds).unref();
      waiters.add(waiter);
      this.process.await(this);
    });
    end?.();
    if (given) return hold;
    throw this.refusal(kind, this.refuses(kind, bytes) ?? 'tenant');
  }

  /** Resolves when there is room for so many bytes, of which none are held, or when `wanted` says no more; `milliseconds`: between two looks. */
  async untilRoom(kind: BudgetKind, bytes: number, milliseconds: number, wanted: () => boolean): Promise<void> {
    while (this.refuses(kind, bytes) !== undefined && wanted())
      await this.acquire(kind, bytes, milliseconds).then(
        (hold) => hold.close(),
        () => undefined,
      );
  }

  /** Gives to those who wait what there is; true: some wait still. */
  pump(): boolean {
    let some = false;
    this.#waiters.forEach((waiters, index) => {
      if (waiters.size === 0) return;
      this.#pump(index, waiters);
      some ||= waiters.size > 0;
    });
    return some;
  }

  /** Ends at the first one for which there is no room: it comes before those behind it. */
  #pump(index: number, waiters: Set<Waiter>): void {
    for (const waiter of waiters) {
      if (this.#refuses(index, waiter.bytes) !== undefined) return;
      waiters.delete(waiter);
      waiter.give();
    }
  }
}

/** Bytes that someone holds of a tenant's budget, and so of the process's. */
export class Hold {
  readonly #budget: TenantBudget;
  readonly #kind: BudgetKind;
  readonly #index: number;
  #bytes = 0;
  #closed = false;

  constructor(budget: TenantBudget, kind: BudgetKind) {
    this.#budget = budget;
    this.#kind = kind;
    this.#index = INDEX[kind];
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Which budget is spent; undefined: there is room. */
  get full(): BudgetOwner | undefined {
    return this.#budget.full(this.#kind);
  }

  /** False, and nothing is held, where a budget does not take it. Not counted as a refusal: what becomes of it is the caller's. */
  tryAdd(bytes: number): boolean {
    if (this.#budget.refuses(this.#kind, bytes) !== undefined) return false;
    this.add(bytes);
    return true;
  }

  /** @throws StatefoldError RATE_LIMITED, UNAVAILABLE where a budget does not take it */
  take(bytes: number): void {
    const owner = this.#budget.refuses(this.#kind, bytes);
    if (owner !== undefined) throw this.#budget.refusal(this.#kind, owner);
    this.add(bytes);
  }

  /** Counts what can't be refused: it is there already. */
  add(bytes: number): void {
    if (this.#closed) return;
    this.#bytes += bytes;
    this.#budget.account.add(this.#index, bytes);
    this.#budget.process.account.add(this.#index, bytes);
  }

  /** Gives back, at most what is held. */
  sub(bytes: number): void {
    const given = Math.min(bytes, this.#bytes);
    if (given <= 0) return;
    this.#bytes -= given;
    this.#budget.account.add(this.#index, -given);
    this.#budget.process.account.add(this.#index, -given);
    this.#budget.process.released();
  }

  /** Holds so many bytes from now on, whatever the budgets say. */
  set(bytes: number): void {
    if (bytes > this.#bytes) this.add(bytes - this.#bytes);
    else this.sub(this.#bytes - bytes);
  }

  /** What would be held past a budget was dropped, or waits. */
  countRefusal(): void {
    this.#budget.process.countRefusal(this.#kind, this.full ?? 'tenant');
  }

  /** Gives all back; nothing is held by it any more. */
  close(): void {
    this.sub(this.#bytes);
    this.#closed = true;
  }
}

/** For parts that are used without a process around them, as tests do: nothing is refused. */
export const UNBOUNDED = new MemoryBudget({ processBytes: Infinity, tenantBytes: Infinity });
