import type { IncomingMessage, ServerResponse } from 'node:http';
import { UNBOUNDED, type Hold, type MemoryBudget, type TenantBudget } from '../core/budget.js';
import { PAGE_BYTES } from '../core/reads.js';
import { nextTurn } from '../core/slices.js';
import { costOfBytes, type Asker, type Turn, type Turns } from '../core/turns.js';
import { RequestAbortedError } from './body.js';

export interface MemoryTimes {
  /** How long a request waits for memory before it is refused, milliseconds. */
  readonly waitMs: number;
  /** After so long without a byte taken a client is cut that does not read its answer, milliseconds. */
  readonly stallMs: number;
}

/** What the budgets of this process have to do with requests. */
export interface MemoryOfRequests extends MemoryTimes {
  readonly budget: MemoryBudget;
  /** A request of the tenant is to wait for memory, until what this gives is called. @throws StatefoldError RATE_LIMITED where too many do */
  readonly whileWaiting?: (tenantId: string) => () => void;
  /** When the tenant's bodies are worked off; as they come without it. */
  readonly turns?: Turns;
}

export const UNBOUNDED_REQUESTS: MemoryOfRequests = { budget: UNBOUNDED, waitMs: 10_000, stallMs: 30_000 };

/** Smaller answers and bodies are not counted: a connection holds that much anyway. */
export const COUNTED_BYTES = 64 * 1024;
/** Whoever reads an answer more slowly than this, bytes a second, holds its memory too long. */
export const SLOWEST_READER = 64 * 1024;

/** Of a body that is not an append, bytes; smaller ones are part of what a request costs. */
const SMALL_BODY = 4096;

/** What is read and told on so many turns doesn't stand behind long pages that were begun before. */
const SHORT_TURNS = 3;
let begunSoFar = 0;
const requests = new WeakMap<IncomingMessage, RequestMemory>();

/** Whose budget the request's body and answer are held of; undefined where no tenant is known. */
export const memoryOf = (request: IncomingMessage): RequestMemory | undefined => requests.get(request);

/** express has the response beside the request. */
export const responseOf = (request: IncomingMessage): ServerResponse | undefined =>
  (request as IncomingMessage & { readonly res?: ServerResponse }).res;

/** A request with its response. */
export interface Answered {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The turns of what is read, and told, for a request's answer. Who has left gives back the memory of its page: nothing more is read for it. */
export function turnsOf({ request, response }: Answered): Turn {
  const memory = memoryOf(request);
  return async (cost) => {
    await (memory === undefined ? nextTurn() : memory.turnOf(cost, request.socket));
    // The response is told some rounds after the socket.
    if (response.destroyed || request.socket.destroyed)
      throw new RequestAbortedError('the client closed the connection');
  };
}

/** What a request holds of its tenant's budget, until its answer is sent or its connection is gone. */
export class RequestMemory {
  readonly #tenant: TenantBudget;
  readonly #times: MemoryTimes;
  readonly #whileWaiting: (() => () => void) | undefined;
  readonly #enter: ((cost: number, asker?: Asker) => Promise<void> | undefined) | undefined;
  /** The so many-eth request. */
  readonly #begun = ++begunSoFar;
  #turns = 0;
  #answer: Hold | undefined;
  #upload: Hold | undefined;

  private constructor(tenantId: string, memory: MemoryOfRequests) {
    const { budget, whileWaiting, turns } = memory;
    this.#enter = turns && ((cost, asker) => turns.enter(tenantId, cost, asker));
    this.#tenant = budget.tenant(tenantId);
    this.#times = memory;
    this.#whileWaiting = whileWaiting && (() => whileWaiting(tenantId));
  }

  /** The request is the tenant's, from now on. */
  static begin(request: IncomingMessage, tenantId: string, memory: MemoryOfRequests): RequestMemory {
    let begun = requests.get(request);
    if (begun === undefined) requests.set(request, (begun = new RequestMemory(tenantId, memory)));
    return begun;
  }

  /** A body of so many bytes is there. Undefined: it may be worked off at once; else when the promise resolves, on that turn. */
  turnFor(bytes: number): Promise<void> | undefined {
    // What a small one costs was reckoned when the request began.
    return bytes < SMALL_BODY ? undefined : this.#enter?.(costOfBytes(bytes));
  }

  /**
   * What is done next for the answer costs so much. Undefined: it may be done at once; else when the promise resolves, on that turn.
   * `connection`: where that has gone it may come early, and nothing is to be done.
   */
  turnOf(cost: number, connection?: Asker['connection']): Promise<void> | undefined {
    const begun = ++this.#turns > SHORT_TURNS ? this.#begun : undefined;
    return this.#enter?.(cost, { ...(connection && { connection }), begun });
  }

  /** Resolves when a page may be built. @throws StatefoldError RATE_LIMITED, UNAVAILABLE where there is no room for it in time */
  async pageOf(response: ServerResponse, bytes = PAGE_BYTES): Promise<void> {
    // A page is asked for where it begins to be read, and by what tells it.
    if (this.#answer !== undefined) return;
    const hold = await this.#tenant.acquire('answers', bytes, this.#times.waitMs, this.#whileWaiting);
    this.#answer = hold;
    giveBack(hold, response);
  }

  /** The page was empty, and the request waits for another one. */
  noPage(): void {
    this.#answer?.close();
    this.#answer = undefined;
  }

  /** Resolves when an upload may be read. @throws StatefoldError RATE_LIMITED, UNAVAILABLE where there is no room for it in time */
  async uploadOf(response: ServerResponse, bytes: number): Promise<Hold> {
    const hold = await this.#tenant.acquire('uploads', bytes, this.#times.waitMs, this.#whileWaiting);
    giveBack(hold, response);
    this.#upload = hold;
    return hold;
  }

  /**
   * What a body of JSON is to tell of as it comes: it is held until the request is answered, unless that was done before it came. Who
   * sends most of a body, and then nothing more, has no more of the process than the budget allows.
   * @throws StatefoldError RATE_LIMITED, UNAVAILABLE where there is no room
   */
  bodyOf(response: ServerResponse): ((length: number) => void) | undefined {
    if (this.#upload !== undefined) return undefined;
    let hold: Hold | undefined;
    return (length) => {
      const missing = length - (hold?.bytes ?? 0);
      if (missing <= COUNTED_BYTES) return;
      if (hold === undefined) giveBack((hold = this.#tenant.hold('uploads')), response);
      hold.take(Math.ceil(missing / COUNTED_BYTES) * COUNTED_BYTES);
    };
  }

  /**
   * An answer of so many bytes is about to be written: they are held until the client has read it, and it is cut when it does not.
   * `must`: it tells of something that is done, and goes out whatever is held.
   * @throws StatefoldError RATE_LIMITED, UNAVAILABLE where there is no room
   */
  answer(response: ServerResponse, bytes: number, must = false): void {
    if (this.#answer === undefined) {
      const hold = this.#tenant.hold('answers');
      if (must) hold.add(bytes);
      else hold.take(bytes);
      this.#answer = hold;
      giveBack(hold, response);
    } else this.#answer.set(bytes);
    const { stallMs } = this.#times;
    const cut = (): void => void response.destroy();
    // The socket's own time-out sees progress; one that sends on while it does not read puts it off, but not the second one.
    response.setTimeout(stallMs, cut);
    const deadline = setTimeout(cut, stallMs + (bytes / SLOWEST_READER) * 1000).unref();
    response.once('close', () => clearTimeout(deadline));
  }

  /** Whether there is room for an answer of so many bytes. */
  takes(bytes: number): boolean {
    return this.#answer !== undefined || this.#tenant.refuses('answers', bytes) === undefined;
  }
}

/** When the response is sent, or its connection has gone. @throws RequestAbortedError where it has already */
function giveBack(hold: Hold, response: ServerResponse): void {
  response.once('close', () => hold.close());
  if (!response.destroyed && !response.closed) return;
  hold.close();
  throw new RequestAbortedError('the client closed the connection');
}
