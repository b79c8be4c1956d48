import type { IncomingMessage } from 'node:http';
import { hasCode } from '../core/errors.js';
import { partitionOf } from '../core/murmur2.js';
import type { Turns } from '../core/turns.js';
import { networkOf } from './address-connections.js';
import type { Authenticator } from './auth.js';
import type { Pace } from './pace.js';

/** Of a turn: what a request costs, about, before it is known what it answers; a refusal costs as much. */
export const REQUEST_COST = 2;
/** Of one that asks whether the process is well. */
const PROBE_COST = 1;

/**
 * Those who show no key that is in force share the event loop by their addresses. Addresses fall into so many shares: a table with
 * one for each would grow with what a flood claims to come from, and so would its part of the loop. Within a share they
 * take turns by their addresses. No tenant's id has a space.
 */
const STRANGERS = 16;
const strangersOf = (network: string): string => `stranger ${partitionOf(network, STRANGERS)}`;
export const strangerOf = (address: string | undefined): string => strangersOf(networkOf(address ?? ''));
/**
 * Who watches the process has shares of its own: behind all else that strangers ask for it would take a process that is well for one that
 * is not. A few: each is one more that a flood from many addresses has.
 */
const WATCHERS = 4;
const watchersOf = (network: string): string => `watcher ${partitionOf(network, WATCHERS)}`;
export const watcherOf = (address: string | undefined): string => watchersOf(networkOf(address ?? ''));
/** Who shows the admin key, as other processes of a cluster do: who is to end a flood of strangers does not wait behind it. */
export const ADMIN = 'the admin';
/** As whom one asks who shows no key of a tenant that is in force. */
type Asking = 'stranger' | 'watcher' | 'admin';

export interface DuesOptions {
  readonly authenticator: Pick<Authenticator, 'find' | 'isClosed'>;
  /** The tenant's pace of requests. */
  readonly requests: Pick<Pace, 'take'>;
  readonly turns: Pick<Turns, 'enter'>;
}

/**
 * What a request owes: a turn of the event loop before it is answered, whatever it is answered, and one off its tenant's pace before it
 * is refused, unless it has paid them by then. Else a flood of refused requests, or of what needs no key, would cost its sender less than
 * one of honest requests, and its neighbours more. Who shows a key that was revoked or has expired pays by its address, as who shows none:
 * an old key that somebody found takes nothing from its tenant.
 */
export class Dues {
  readonly #options: DuesOptions;
  readonly #counted = new WeakSet<IncomingMessage>();
  readonly #turned = new WeakSet<IncomingMessage>();

  constructor(options: DuesOptions) {
    this.#options = options;
  }

  /** The request has been taken off its tenant's pace. */
  counted(request: IncomingMessage): void {
    this.#counted.add(request);
  }

  isCounted(request: IncomingMessage): boolean {
    return this.#counted.has(request);
  }

  /** The request has had its turn, or is given it at once. */
  turned(request: IncomingMessage): void {
    this.#turned.add(request);
  }

  /**
   * Takes a request that is refused for `thrown` off its tenant's pace. Whoever is suspended is told so also past it: a client that
   * is told to send more slowly would go on.
   * @throws StatefoldError RATE_LIMITED, to be answered instead
   */
  count(request: IncomingMessage, thrown: unknown): void {
    const { authenticator, requests } = this.#options;
    if (this.#counted.has(request)) return;
    this.#counted.add(request);
    const tenantId = authenticator.find(request)?.tenantId;
    if (tenantId === undefined || isPastPace(thrown)) return;
    try {
      requests.take(tenantId);
    } catch (error) {
      if (!authenticator.isClosed(tenantId)) throw error;
    }
  }

  /**
   * The turn of a request, unless it had one. Undefined: it may begin, or be answered, at once; else when the promise resolves, unless its
   * connection has gone by then: nobody has paid for it.
   */
  turn(request: IncomingMessage, as: Asking = 'stranger'): Promise<void> | undefined {
    if (this.#turned.has(request)) return undefined;
    this.#turned.add(request);
    const { authenticator, turns } = this.#options;
    const { socket: connection } = request;
    const cost = as === 'watcher' ? PROBE_COST : REQUEST_COST;
    const tenantId = authenticator.find(request)?.tenantId;
    if (tenantId !== undefined) return turns.enter(tenantId, cost, { connection });
    const within = networkOf(connection.remoteAddress ?? '');
    return turns.enter(shareOf(as, within), cost, { isTenant: false, within, connection });
  }
}

const shareOf = (as: Asking, network: string): string =>
  as === 'admin' ? ADMIN : (as === 'watcher' ? watchersOf : strangersOf)(network);

/** It was held against the pace already. */
const isPastPace = (thrown: unknown): boolean =>
  hasCode(thrown, 'RATE_LIMITED') && thrown.details?.['quota'] === 'requestsPerSecond';
