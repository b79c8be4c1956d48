import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { Owner, Ownership } from '../../placement/ownership.js';
import { hasCode, NotOwnerError, StatefoldError } from '../../core/errors.js';
import type { Hold } from '../../core/budget.js';
import { tenantOfKey } from '../../core/slots.js';
import { declaredLength, hasBody, readBody, RequestAbortedError, tooLarge } from '../body.js';
import { UNBOUNDED_REQUESTS, type MemoryOfRequests } from '../request-memory.js';
import { ForwardCall, type Attempt, type Failure } from './forward-call.js';
import { forwardedHeaders, isForwarded, NOT_OWNER, targetOf } from './headers.js';
import { OwnerPools } from './owner-pools.js';
import type { Peers } from './peers.js';

export type ForwardOutcome =
  /** The client has an answer of the owner. */
  | 'answered'
  /** The request was refused here, for its body. */
  | 'refused'
  /** A 503 of ours; nothing was done. */
  | 'unavailable'
  /** A 503 of ours; it may have been done. */
  | 'unknown'
  /** The client left. */
  | 'gone'
  /** This process became the owner. */
  | 'self';

export interface GatewayObserver {
  forwarded?(outcome: ForwardOutcome, seconds: number): void;
  forwardRetried?(why: Failure): void;
  /** WebSockets that are tunnelled to owners now. */
  tunnels?(open: number): void;
}

export interface GatewayOptions {
  readonly ownership: Ownership;
  readonly peers: Peers;
  /** How long a request may wait for an owner that serves it. */
  readonly deadlineMs: number;
  readonly observer?: GatewayObserver | undefined;
  /** What is read to be sent on is held of it; without it nothing is bounded. */
  readonly memory?: MemoryOfRequests;
}

/** Which process of a tenant a request is for: its owner unless given, or who notifies of its changes. */
export type TenantServer = 'owner' | 'notifier';

/** A request on its way to the owner. */
export interface ForwardedRequest {
  /** Of the tenant, or of the partition of it that the request is for. */
  readonly slotKey: string;
  readonly by?: TenantServer;
  readonly requestId: string;
  /** Most bytes of a body; undefined: it has none that matters, or was taken already. */
  readonly bodyLimit: number | undefined;
  /** The body is an upload of sources: it waits for memory, where others are refused. */
  readonly upload?: boolean;
  /** Once it was read it is here: whoever serves the request then has it from here. */
  body?: Buffer | undefined;
  /** Sending it twice does no harm: it changes nothing, or is an append with an id. */
  readonly repeatable: boolean;
  /** What names an append that its client gave no name. */
  readonly commandId?: string | undefined;
  /** The answer is short, and is passed on only when it is whole: torn ones are asked for again. */
  readonly whole: boolean;
  /** The answer may be long in coming, or without end. */
  readonly lasting: boolean;
}

/** What may yet be answered: a response, or the socket of an upgrade. */
export interface Answerable {
  readonly destroyed: boolean;
  setHeader(name: string, value: string): unknown;
}

const FIRST_DELAY_MS = 20;
const MAX_DELAY_MS = 1_000;
/** What an owner still has under way when another one takes the tenant: it mostly ends well. Then it is asked for elsewhere. */
const MOVED_GRACE_MS = 1_000;
/** A process can lose its claim a moment before it hears of the new assignment. */
const HEARSAY_MS = 1_000;

/**
 * Sends requests on to the process that serves their tenant. Which one that is, is a hint: an owner that isn't one says so, and
 * the request goes on to the next, within a deadline. What may have been done is repeated only where that does no harm.
 */
export class Gateway {
  readonly #options: GatewayOptions;
  readonly peers: Peers;
  readonly #pools: OwnerPools;
  readonly #calls = new Set<{ readonly call: ForwardCall; readonly request: ForwardedRequest; readonly url: string }>();
  #closing = false;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.peers = options.peers;
    this.#pools = new OwnerPools(options.peers.tls);
    options.ownership.onChange(() => {
      // There are other processes: what is sent to them needs not wait for it.
      void this.#pools.load();
      this.#reassigned();
    });
  }

  /** This process serves the tenant, or the partition of it, itself. */
  serves(slotKey: string, by?: TenantServer): boolean {
    return this.#serving(slotKey, by) === 'self';
  }

  /** Which process owns the tenant, or the partition of it, as far as this one knows. */
  ownerOf(slotKey: string): Owner {
    return this.#serving(slotKey, 'owner');
  }

  /** Resolves when it may be another one, at the latest after so long. */
  changed(withinMs: number): Promise<void> {
    return this.#options.ownership.changed(withinMs);
  }

  /** How long a request may wait for an owner that serves it. */
  get deadlineMs(): number {
    return this.#options.deadlineMs;
  }

  /** Sends a body that has no end yet to another process, in the request's name. False: nothing can be sent any more. */
  stream(
    url: string,
    request: IncomingMessage,
    requestId: string,
    body: Readable,
    handler: Dispatcher.DispatchHandler,
  ): Promise<boolean> {
    return this.#pools.dispatch(
      url,
      true,
      {
        path: targetOf(request),
        method: request.method as 'POST',
        headers: forwardedHeaders(request, this.peers, requestId),
        body,
      },
      handler,
    );
  }

  #serving(slotKey: string, by: TenantServer = 'owner'): Owner {
    const { ownership } = this.#options;
    return by === 'owner' ? ownership.ownerOf(slotKey) : ownership.notifierOf(slotKey);
  }

  /** A request that this process refused as not the owner, or could not serve: is there another one for it now? */
  async movedAway(slotKey: string, error: unknown, by?: TenantServer): Promise<boolean> {
    if (!hasCode(error, 'UNAVAILABLE')) return false;
    if (this.serves(slotKey, by) && error instanceof NotOwnerError) await this.#options.ownership.changed(HEARSAY_MS);
    return !this.serves(slotKey, by);
  }

  /**
   * Has the request answered by the tenant's owner. False: this process is it by now, and is to serve the request (the body may
   * have been read into `asked`). Nothing of the body is read before an owner is known.
   * @throws StatefoldError UNAVAILABLE, RATE_LIMITED, PAYLOAD_TOO_LARGE; RequestAbortedError when the client went away
   */
  async forward(request: IncomingMessage, response: ServerResponse, asked: ForwardedRequest): Promise<boolean> {
    const began = performance.now();
    let outcome: ForwardOutcome = 'unavailable';
    let hold: Hold | undefined;
    try {
      const served = await this.reach(request, response, asked, async (url) => {
        hold ??= await this.#holdBody(request, asked);
        // One that left while it waited has no end that could be read.
        if (response.destroyed) return { kind: 'gone' };
        if (asked.bodyLimit !== undefined && asked.body === undefined) {
          asked.body = await readBody(request, asked.bodyLimit);
          hold.set(asked.body.length);
        }
        return this.#attempt(url, request, response, asked);
      });
      outcome = served ? 'answered' : 'self';
      return served;
    } catch (error) {
      if (error instanceof RequestAbortedError) outcome = 'gone';
      else if (error instanceof UnknownResultError) outcome = 'unknown';
      else if (error instanceof StatefoldError && error.code !== 'UNAVAILABLE') outcome = 'refused';
      throw error;
    } finally {
      hold?.close();
      this.#options.observer?.forwarded?.(outcome, (performance.now() - began) / 1000);
    }
  }

  /** Room for the body of a request until it is answered: it is kept whole, to be sent again. @throws StatefoldError as `forward` */
  async #holdBody(request: IncomingMessage, { slotKey, bodyLimit, body, upload }: ForwardedRequest): Promise<Hold> {
    const { budget, waitMs, whileWaiting } = this.#options.memory ?? UNBOUNDED_REQUESTS;
    const tenantId = tenantOfKey(slotKey);
    const tenant = budget.tenant(tenantId);
    const declared = declaredLength(request);
    if (body === undefined && bodyLimit !== undefined && declared > bodyLimit) throw tooLarge(bodyLimit);
    if (upload && body === undefined) {
      const bytes = Number.isNaN(declared) ? (bodyLimit ?? 0) : declared;
      return tenant.acquire('uploads', bytes, waitMs, whileWaiting && (() => whileWaiting(tenantId)));
    }
    const hold = tenant.hold('appends');
    // Without a limit it was taken by whoever read it, and may have been done.
    if (bodyLimit === undefined) hold.add(body?.length ?? 0);
    else hold.take(body?.length ?? (hasBody(request) ? (Number.isNaN(declared) ? bodyLimit : declared) : 0));
    return hold;
  }

  /** Tries owner after owner until one has answered. As `forward`, for any kind of attempt; `response` is told when the owner is not this one. */
  async reach(
    request: IncomingMessage,
    response: Answerable,
    { slotKey, by, repeatable }: Pick<ForwardedRequest, 'slotKey' | 'by' | 'repeatable'>,
    attempt: (url: string) => Promise<Attempt>,
  ): Promise<boolean> {
    const { ownership, deadlineMs, observer } = this.#options;
    const until = performance.now() + deadlineMs;
    let delay = FIRST_DELAY_MS;
    let refusal: (() => void) | undefined;
    let unknown = false;
    for (;;) {
      const owner = this.#serving(slotKey, by);
      if (owner === 'self') return false;
      if (isForwarded(request)) {
        response.setHeader(NOT_OWNER, '1');
        throw new NotOwnerError();
      }
      if (this.#closing)
        throw new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again');
      if (owner !== undefined) {
        const result = await attempt(owner.url);
        if (result.kind === 'answered') return true;
        if (result.kind === 'gone') throw new RequestAbortedError('the client closed the connection');
        if (!result.definite) unknown = true;
        if (unknown && !repeatable) throw new UnknownResultError();
        refusal = result.answer;
        observer?.forwardRetried?.(result.why);
      }
      const left = until - performance.now();
      if (left <= 0 || response.destroyed) break;
      await ownership.changed(Math.min(left, owner === undefined ? MAX_DELAY_MS : delay));
      delay = Math.min(2 * delay, MAX_DELAY_MS);
    }
    if (response.destroyed) throw new RequestAbortedError('the client closed the connection');
    if (refusal === undefined)
      throw unknown
        ? new UnknownResultError()
        : new StatefoldError(
            'UNAVAILABLE',
            'no process serves the tenant now; nothing was done, send the request again',
          );
    refusal();
    return true;
  }

  /** Ends the answers that have no end, so that their clients connect elsewhere, and those that wait for a change. */
  endLasting(): void {
    this.#closing = true;
    for (const { call, request } of [...this.#calls]) if (request.lasting) call.cancel('closing');
  }

  /** Cuts whatever is still under way. */
  close(): Promise<void> {
    return this.#pools.close();
  }

  async #attempt(
    url: string,
    request: IncomingMessage,
    response: ServerResponse,
    asked: ForwardedRequest,
  ): Promise<Attempt> {
    if (response.destroyed) return { kind: 'gone' };
    const { requestId, commandId, body, repeatable, whole, lasting } = asked;
    const call = new ForwardCall(response, { repeatable, whole });
    const entry = { call, request: asked, url };
    this.#calls.add(entry);
    try {
      const options = {
        path: targetOf(request),
        method: request.method as 'GET',
        headers: forwardedHeaders(request, this.peers, requestId, commandId),
        body: body ?? null,
      };
      if (!(await this.#pools.dispatch(url, lasting || !repeatable, options, call))) call.cancel('closing');
      return await call.result;
    } finally {
      this.#calls.delete(entry);
    }
  }

  /** An owner that stopped never answers what it has: it is asked for at the next one, unless it was sent to the client in part. */
  #reassigned(): void {
    const moved = ({
      call,
      request,
      url,
    }: {
      readonly call: ForwardCall;
      readonly request: ForwardedRequest;
      readonly url: string;
    }): boolean => {
      const owner = this.#serving(request.slotKey, request.by);
      return request.repeatable && !call.passing && owner !== undefined && (owner === 'self' || owner.url !== url);
    };
    const entries = [...this.#calls].filter(moved);
    if (entries.length === 0) return;
    setTimeout(() => {
      for (const entry of entries) if (this.#calls.has(entry) && moved(entry)) entry.call.cancel('moved');
    }, MOVED_GRACE_MS).unref();
  }
}

/** The owner went away with the request: nobody knows whether it was done. */
class UnknownResultError extends StatefoldError {
  constructor() {
    super(
      'UNAVAILABLE',
      'the process that serves the tenant went away; the request may have been done, look before you send it again',
    );
  }
}
