import { headroom, type Headroom } from '../../core/headroom.js';
import { costOfBytes, type Turns } from '../../core/turns.js';
import { within } from '../../core/within.js';
import type { Line, TooLong } from './line-source.js';

/** Of a turn: what a chunk costs, however little is in it. A read of a socket may have ten thousand of one byte. */
export const CHUNK_COST = 1 / 32;
/** What a line costs, about, beside its bytes. */
const LINE_COST = 0.25;
/** What lines may cost together before they wait for a turn: 32 short ones, or one that is long. */
const TURN_COST = 8;
/** What was gathered waits so long for pauses, milliseconds: beside hundreds of streams each of them may take seconds. */
const GATHERED_MS = 250;

/** The turns that a stream of lines takes of its tenant: one for many short lines. Beside requests of other tenants they come less often. */
export class LineTurns {
  #owed = 0;
  /** How long what was gathered has waited for pauses, milliseconds. */
  #paused = 0;

  constructor(
    private readonly turns: Pick<Turns, 'enter'>,
    private readonly tenantId: string,
    /** What was gathered goes on. A pause beside other tenants is mostly short, and what is gathered meanwhile costs the less. */
    private readonly flush: () => Promise<void> = () => Promise.resolve(),
    private readonly room: Pick<Headroom, 'turn'> = headroom,
  ) {}

  /** What was read costs so much; resolves on the tenant's turn where one is due. */
  pay(cost: number): Promise<void> | undefined {
    this.#owed += cost;
    if (this.#owed < TURN_COST) return undefined;
    const owed = this.#owed;
    this.#owed = 0;
    // A long line has the pauses of as many short ones.
    return this.#enterBehind(Math.floor(owed / TURN_COST), owed);
  }

  /** Behind the pauses of so many portions, where any is due. */
  #enterBehind(portions: number, owed: number): Promise<void> | undefined {
    for (let left = portions; left > 0; left--) {
      const pause = this.room.turn(this.tenantId);
      if (pause !== undefined) return this.#behind(pause).then(() => this.#enterBehind(left - 1, owed));
    }
    return this.#enter(owed);
  }

  async #behind(pause: Promise<void>): Promise<void> {
    const began = performance.now();
    const isOver = await within(
      pause.then(() => true),
      Math.max(0, GATHERED_MS - this.#paused),
    );
    this.#paused += performance.now() - began;
    // A timer may be early by a part of a millisecond.
    if (isOver === undefined || this.#paused >= GATHERED_MS) await this.#flushed();
    await pause;
  }

  #enter(owed: number): Promise<void> | undefined {
    const turn = this.turns.enter(this.tenantId, owed);
    // It may be far off.
    return turn && this.#flushed().then(() => turn);
  }

  #flushed(): Promise<void> {
    this.#paused = 0;
    return this.flush();
  }

  payFor({ text }: Line | TooLong): Promise<void> | undefined {
    return this.pay(LINE_COST + costOfBytes(text?.length ?? 0));
  }
}
