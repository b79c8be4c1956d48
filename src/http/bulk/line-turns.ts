import { headroom } from '../../core/headroom.js';
import { costOfBytes, type Turns } from '../../core/turns.js';
import type { Line, TooLong } from './line-source.js';

/** Of a turn: what a chunk costs, however little is in it. A read of a socket may have ten thousand of one byte. */
export const CHUNK_COST = 1 / 32;
/** What a line costs, about, beside its bytes. */
const LINE_COST = 0.25;
/** What lines may cost together before they wait for a turn: 32 short ones, or one that is long. */
const TURN_COST = 8;

/** The turns that a stream of lines takes of its tenant: one for many short lines. Beside requests of other tenants they come less often. */
export class LineTurns {
  #owed = 0;

  constructor(
    private readonly turns: Pick<Turns, 'enter'>,
    private readonly tenantId: string,
    /** What was gathered goes on: a turn of the tenant may be far off. A pause beside other tenants is short, and what is gathered meanwhile costs the less. */
    private readonly flush: () => Promise<void> = () => Promise.resolve(),
  ) {}

  /** What was read costs so much; resolves on the tenant's turn where one is due. */
  pay(cost: number): Promise<void> | undefined {
    this.#owed += cost;
    if (this.#owed < TURN_COST) return undefined;
    const owed = this.#owed;
    this.#owed = 0;
    const room = headroom.turn(this.tenantId);
    return room === undefined ? this.#enter(owed) : room.then(() => this.#enter(owed));
  }

  #enter(owed: number): Promise<void> | undefined {
    const turn = this.turns.enter(this.tenantId, owed);
    return turn && this.flush().then(() => turn);
  }

  payFor({ text }: Line | TooLong): Promise<void> | undefined {
    return this.pay(LINE_COST + costOfBytes(text?.length ?? 0));
  }
}
