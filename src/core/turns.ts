import { background, type Background } from './background.js';
import { chunksOf } from './parts.js';
import { Recent } from './recent.js';
import { Rota } from './rota.js';

/** What takes its turn, in units of about a tenth of a millisecond of the event loop. */
interface Waiting {
  readonly cost: number;
  readonly connection: Connection | undefined;
  /** Of a part; else 0. */
  readonly begun: number;
  go(): void;
}

/** What is done next costs so many of those: resolves when its turn has come. */
export type Turn = (cost: number) => Promise<void>;

/** Of a client. */
interface Connection {
  readonly destroyed: boolean;
}

/** Who asks. */
export interface Asker {
  /** False: no client of a tenant does. */
  readonly isTenant?: boolean;
  /** Of those who share one share: they take turns within it. */
  readonly within?: string;
  /** Where it goes while it waits the turn may come early: there is nothing to be done on it. */
  readonly connection?: Connection;
  /**
   * It asks for a further part of what it has begun, as the so many-eth of all. Parts and what is to begin take turns; of parts those go first
   * that were begun first. So a few are under way at a time, and hold what they have made, however many have begun.
   */
  readonly begun?: number | undefined;
}

/** Of a tenant that has had a turn in this round of the loop, or waits for one. */
interface Share {
  readonly tenantId: string;
  readonly waiting: Rota<Waiting>;
  /** What it may take at its turn; it is saved up only while it waits. */
  deficit: number;
  /** What it has taken in this round. */
  spent: number;
  /** When so many wait it is looked for those whose connection has gone. */
  lookAt: number;
}

export interface TurnsOptions {
  /** What all tenants may take together in a round in which some wait, units; and those who take little as much before them. */
  readonly round?: number;
  /** What a tenant that has nothing waiting takes at once in a round, units, while others wait or not. */
  readonly atOnce?: number;
  /** Runs the work in the next round of the loop, behind what came in by then. */
  readonly nextRound?: (work: () => void) => void;
  /** Runs the work when what began in this callback of the loop, and all that followed from it at once, is done. */
  readonly behind?: (work: () => void) => void;
  readonly now?: () => number;
  /** Told who asks, and asked whether others do. */
  readonly clients?: Pick<Background, 'asked' | 'isShared'>;
}

/** A body is about one unit more for each so many bytes. */
const UNIT_BYTES = 4096;
/** What the bytes of a body cost. */
export const costOfBytes = (bytes: number): number => bytes / UNIT_BYTES;

/** Of what is listed so many items cost one unit: each is read from the store, and told. */
const LISTED_A_UNIT = 12;
export const costOfListed = (items: number): number => items / LISTED_A_UNIT;
/** So many are read, or told, on a turn: about a millisecond. */
export const LISTED_AT_ONCE = 128;

/** The items part by part, each on a turn of its own. */
export async function* onTurns<T>(items: readonly T[], turn: Turn): AsyncGenerator<readonly T[]> {
  for (const part of chunksOf(items, LISTED_AT_ONCE)) {
    await turn(costOfListed(part.length));
    yield part;
  }
}

/** Who opens connections, asks and goes, again and again, leaves nothing behind but so many. */
const LEAST_LOOKED_AT = 512;
const CLIENT: Asker = {};
const PARTS = 'parts';

const ROUND = 16;
const AT_ONCE = 8;
/** What a unit should take of the event loop, milliseconds. Where it takes longer a round has fewer, down to a share of it. */
const UNIT_MS = 0.1;
const LEAST_SHARE = 1 / 8;
/**
 * Of a round while several tenants ask: a request passes through several rounds, and each is as long as those of others make it. One that
 * is alone has long ones, which cost less.
 */
const AMONG_OTHERS = 1 / 2;
/** Of what a unit takes: how much what was measured last counts. */
const SMOOTHING = 0.1;
/** What tenants took of late is of so long, milliseconds, and up to twice as long. */
const OF_LATE_MS = 250;
/** Of what each would have of it, were it shared alike: who took no more takes little. */
const LITTLE = 1 / 2;
/** Whose units take so many times as long as they should takes few of them, and much. */
const DEAR = 3;

/**
 * Shares the event loop among tenants: what one of them asks for begins at once while it has taken little in this round of the loop,
 * and waits in a queue of its own past that. Queues are served by deficit round robin, a bounded amount a round, so that what others
 * send meanwhile is read, and begins, in between. What a request costs is reckoned before it begins, and may be far off (an upload, an
 * error that is told): a round has fewer units while they take longer than they should. That is for those to bear whose requests they are:
 * who takes little of the loop has its turn before them, and out of a whole round. However much a tenant sends, another one's request waits
 * for few rounds.
 */
export class Turns {
  readonly #round: number;
  readonly #atOnce: number;
  readonly #nextRound: (work: () => void) => void;
  readonly #behind: (work: () => void) => void;
  readonly #shares = new Map<string, Share>();
  #waiting = 0;
  /** What all have taken in this round. */
  #spent = 0;
  #ends = false;
  readonly #now: () => number;
  readonly #clients: Pick<Background, 'asked' | 'isShared'>;
  /** Of a whole round: what this one may have, in (0, 1]. */
  #part = 1;
  /** Units of late, and what they themselves took until they waited for something, milliseconds. */
  readonly #own = { taken: ROUND, tookMs: ROUND * UNIT_MS };
  /** Milliseconds of the loop, of what was measured while several tenants asked. */
  readonly #recent = new Recent(OF_LATE_MS);
  /** Units of the same. */
  readonly #recentUnits = new Recent(OF_LATE_MS);
  /** Units of what began in this callback of the loop, by tenant; undefined: it isn't measured. */
  #measured: Map<string, number> | undefined;
  #hasMeasured = false;
  #isShared = false;

  constructor({
    round = ROUND,
    atOnce = AT_ONCE,
    nextRound = (work) => void setImmediate(work),
    // What is put off in a promise's job runs when there are no more of these.
    behind = (work) => queueMicrotask(() => process.nextTick(work)),
    now = () => performance.now(),
    clients = background,
  }: TurnsOptions = {}) {
    this.#round = round;
    this.#atOnce = atOnce;
    this.#nextRound = nextRound;
    this.#behind = behind;
    this.#now = now;
    this.#clients = clients;
  }

  /** How many wait for their turn, of all tenants. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Undefined: it may begin at once. Else it is to wait for the promise, and then begin on that very turn. */
  enter(tenantId: string, wanted: number, asker: Asker = CLIENT): Promise<void> | undefined {
    const { isTenant = true, begun = 0, within = begun === 0 ? '' : PARTS } = asker;
    // One that had gone when it asked would have early turns without end.
    const connection = asker.connection?.destroyed === true ? undefined : asker.connection;
    if (isTenant) this.#clients.asked(tenantId);
    // What takes more than a round, takes a round.
    const cost = Math.min(wanted, this.#round);
    let share = this.#shares.get(tenantId);
    if (share === undefined) {
      share = { tenantId, waiting: new Rota(), deficit: 0, spent: 0, lookAt: LEAST_LOOKED_AT };
      this.#shares.set(tenantId, share);
    }
    if (!this.#ends) this.#endRound();
    if (share.waiting.length === 0 && (share.spent === 0 || share.spent + cost <= this.#mostAtOnce(share))) {
      this.#measure();
      this.#spend(share, cost);
      return undefined;
    }
    const { waiting } = share;
    this.#waiting++;
    const turn = new Promise<void>((go) => {
      waiting.insert(within, { cost, connection, begun, go }, (other) => other.begun > begun);
    });
    if (waiting.length >= share.lookAt) this.#lookAt(share);
    return turn;
  }

  #mostAtOnce(share: Share): number {
    const isWhole = this.#part < 1 && this.#spent < this.#round && this.#takesLittle(share);
    return isWhole ? this.#atOnce : this.#atOnce * this.#part;
  }

  /** So little that rounds are not long for what it asks for. Of who comes anew that isn't known yet. */
  #takesLittle({ tenantId }: Share): boolean {
    const taken = this.#recent.of(tenantId);
    return (
      taken > 0 &&
      taken * this.#recent.sharers <= LITTLE * this.#recent.total &&
      taken <= DEAR * UNIT_MS * this.#recentUnits.of(tenantId)
    );
  }

  /** Of a tenant alone what begins first in a round, which is most of it where there is much; of several each callback of the loop. */
  #measure(): void {
    if (this.#measured !== undefined || (this.#hasMeasured && !this.#isShared)) return;
    const measured = new Map<string, number>();
    this.#measured = measured;
    this.#hasMeasured = true;
    const began = this.#now();
    this.#behind(() => {
      this.#measured = undefined;
      const tookMs = this.#now() - began;
      let units = 0;
      for (const taken of measured.values()) units += taken;
      if (units === 0) return;
      const own = this.#own;
      own.taken += units - SMOOTHING * own.taken;
      own.tookMs += tookMs - SMOOTHING * own.tookMs;
      if (!this.#isShared) return;
      for (const [tenantId, taken] of measured) {
        this.#recent.add(tenantId, (tookMs * taken) / units);
        this.#recentUnits.add(tenantId, taken);
      }
    });
  }

  #spend(share: Share, cost: number): void {
    share.spent += cost;
    this.#spent += cost;
    this.#measured?.set(share.tenantId, (this.#measured.get(share.tenantId) ?? 0) + cost);
  }

  /** Those whose connection has gone wait no more. */
  #lookAt(share: Share): void {
    const { waiting } = share;
    const gone = waiting.remove(({ connection }) => connection?.destroyed === true);
    this.#waiting -= gone.length;
    share.lookAt = Math.max(LEAST_LOOKED_AT, 2 * waiting.length);
    for (const one of gone) one.go();
  }

  #endRound(): void {
    this.#ends = true;
    this.#hasMeasured = false;
    this.#isShared = this.#clients.isShared;
    if (this.#isShared) {
      const now = this.#now();
      this.#recent.passed(now);
      this.#recentUnits.passed(now);
    }
    // Not by how long rounds are: what else is done makes them that, or a machine that is busy, and they are as long with few units. The fewer
    // there were the more each seemed to take, and two requests began a round however few came.
    const unitMs = this.#own.tookMs / this.#own.taken;
    const most = this.#isShared ? AMONG_OTHERS : 1;
    this.#part = Math.max(LEAST_SHARE, most * Math.min(1, UNIT_MS / unitMs));
    this.#nextRound(() => {
      this.#ends = false;
      this.#serve();
    });
  }

  /** Begins a round: what waits has its turn, as far as the round goes. */
  #serve(): void {
    this.#spent = 0;
    for (const [tenantId, share] of this.#shares) {
      share.spent = 0;
      if (share.waiting.length === 0) this.#shares.delete(tenantId);
    }
    if (this.#waiting === 0) return;
    this.#endRound();
    this.#measure();
    if (this.#isShared) this.#pass(this.#round, this.#round, (share) => this.#takesLittle(share));
    const round = this.#round * this.#part;
    const end = this.#spent + round;
    while (this.#waiting > 0 && this.#spent < end) this.#pass(round, end);
  }

  /** A turn for each that waits, out of a round of so many units, up to the end of what may be spent. */
  #pass(round: number, end: number, isServed: (share: Share) => boolean = () => true): void {
    for (const share of [...this.#shares.values()]) {
      if (this.#spent >= end) return;
      if (share.waiting.length === 0 || !isServed(share)) continue;
      // At least a unit: however many wait, one of them is served after a few passes.
      share.deficit += Math.max(1, round / this.#shares.size);
      this.#take(share, end);
      // Whoever had its turn stands behind the others in the next round.
      if (this.#shares.size === 1) continue;
      this.#shares.delete(share.tenantId);
      this.#shares.set(share.tenantId, share);
    }
  }

  #take(share: Share, end: number): void {
    for (let next = share.waiting.first; next !== undefined && next.cost <= share.deficit; next = share.waiting.first) {
      share.waiting.shift();
      share.deficit -= next.cost;
      this.#spend(share, next.cost);
      this.#waiting--;
      next.go();
      if (this.#spent >= end) return;
    }
    if (share.waiting.length === 0) share.deficit = 0;
  }
}
