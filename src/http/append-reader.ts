import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Hold } from '../core/budget.js';
import { eventLoop } from '../core/event-loop.js';
import { costOfBytes, type Turns } from '../core/turns.js';
import {
  parseAppendBody,
  parseTransactionBody,
  type AppendBody,
  type BodyLimits,
  type TransactionBody,
} from './append-body.js';
import { declaredLength, readBody, RequestAbortedError } from './body.js';
import type { Dues } from './dues.js';
import { COUNTED_BYTES, type MemoryOfRequests } from './request-memory.js';

/** Whose body it is: that of `POST /events`, of `POST /events/batch` or of `POST /events/transaction`. */
export type AppendForm = 'single' | 'batch' | 'transaction';

const PATHS: Readonly<Record<AppendForm, Buffer>> = {
  single: Buffer.from('POST /events\n'),
  batch: Buffer.from('POST /events/batch\n'),
  transaction: Buffer.from('POST /events/transaction\n'),
};

/** By which a request that comes again with its key is told from another one with that key. */
export const requestHashOf = (form: AppendForm, body: Buffer): Buffer =>
  hash('sha256', Buffer.concat([PATHS[form], body]), 'buffer');

export interface AppendReaderOptions {
  /** Without it each body may be parsed as it comes. */
  readonly turns: Turns | undefined;
  readonly dues: Pick<Dues, 'turned'> | undefined;
  readonly memory: MemoryOfRequests;
  readonly limits: BodyLimits & { readonly maxBodyBytes: number };
}

/**
 * Reads bodies of appends, each until the turn on which it may be parsed: what many bodies cost that arrive together is known when they are
 * there, and not when their heads were. One that is long, or may be, is held of the tenant's budget until then, and so is each that waits;
 * then the writer holds what it says.
 */
export class AppendReader {
  readonly #turns: Turns | undefined;
  readonly #dues: Pick<Dues, 'turned'> | undefined;
  readonly #memory: MemoryOfRequests;
  readonly #limits: AppendReaderOptions['limits'];

  constructor({ turns, dues, memory, limits }: AppendReaderOptions) {
    this.#turns = turns;
    this.#dues = dues;
    this.#memory = memory;
    this.#limits = limits;
  }

  /** @throws {StatefoldError} PAYLOAD_TOO_LARGE; RATE_LIMITED or UNAVAILABLE where there is no room to hold it */
  async read(request: IncomingMessage, tenantId: string): Promise<Buffer> {
    const length = declaredLength(request);
    if (!(length <= COUNTED_BYTES)) return this.#readLong(request, tenantId, length);
    // As with nearly all appends: nothing is held, and no frame made, where its turn has come.
    const body = await readBody(request, this.#limits.maxBodyBytes);
    const turn = this.#turnFor(body, request, tenantId);
    if (turn === undefined) return body;
    try {
      await this.#held(tenantId, body.length, () => turn);
    } catch (error) {
      // One that is refused for want of room has been given a turn all the same.
      this.#dues?.turned(request);
      throw error;
    }
    return body;
  }

  /** @throws {StatefoldError} INVALID_REQUEST with what is wrong, and where */
  parse(body: Buffer, form: AppendForm): AppendBody | TransactionBody {
    return body.length > COUNTED_BYTES
      ? eventLoop.slice('bodies', () => this.#parse(body, form))
      : this.#parse(body, form);
  }

  #parse(body: Buffer, form: AppendForm): AppendBody | TransactionBody {
    return form === 'transaction'
      ? parseTransactionBody(body, this.#limits)
      : parseAppendBody(body, form === 'batch', this.#limits);
  }

  /** @param length NaN where the client says none */
  #readLong(request: IncomingMessage, tenantId: string, length: number): Promise<Buffer> {
    const { maxBodyBytes } = this.#limits;
    if (length > maxBodyBytes) return readBody(request, maxBodyBytes);
    return this.#held(tenantId, Number.isNaN(length) ? maxBodyBytes : length, async (hold) => {
      const body = await readBody(request, maxBodyBytes);
      hold.set(body.length);
      await this.#turnFor(body, request, tenantId);
      return body;
    });
  }

  /** Rejects where nobody is there for the answer any more. */
  #turnFor(body: Buffer, { socket }: IncomingMessage, tenantId: string): Promise<void> | undefined {
    const turn = this.#turns?.enter(tenantId, 1 + costOfBytes(body.length), { connection: socket });
    return turn?.then(() => {
      if (socket.destroyed) throw new RequestAbortedError();
    });
  }

  async #held<T>(tenantId: string, bytes: number, work: (hold: Hold) => Promise<T>): Promise<T> {
    const hold = this.#memory.budget.tenant(tenantId).hold('appends');
    try {
      hold.take(bytes);
      return await work(hold);
    } finally {
      hold.close();
    }
  }
}
