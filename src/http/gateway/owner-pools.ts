import { performance } from 'node:perf_hooks';
import type { Dispatcher, Pool } from 'undici';

/** Connections that are kept to one owner; requests past them wait. */
const KEPT = 64;
const CONNECT_MS = 2_000;
/** Longer than a long poll. An owner that stopped is found out sooner, by the change of the assignment. */
const HEADERS_MS = 90_000;
/** Pools of processes that are no more are closed when others are made. */
const UNUSED_MS = 600_000;

interface Owner {
  readonly kept: Pool;
  readonly single: Pool;
  usedAt: number;
}

/** Connections to the other processes: kept ones for what is short, and one of its own for what may last or must not be sent twice. */
export class OwnerPools {
  readonly #owners = new Map<string, Owner>();
  #loading: Promise<typeof Pool> | undefined;
  #closed = false;

  /** The client is a third of all packages that a start would load: a process that is alone never does. */
  load(): Promise<typeof Pool> {
    return (this.#loading ??= import('undici').then((undici) => undici.Pool));
  }

  /**
   * `single`: over a new connection. A kept one may be closed by the owner just as a request goes out on it, and then nobody
   * knows what became of it. False when the pools are closed: nothing was sent.
   */
  async dispatch(
    url: string,
    single: boolean,
    options: Omit<Dispatcher.DispatchOptions, 'origin'>,
    handler: Dispatcher.DispatchHandler,
  ): Promise<boolean> {
    const Pool = await this.load();
    if (this.#closed) return false;
    const owner = this.#owner(url, Pool);
    owner.usedAt = performance.now();
    (single ? owner.single : owner.kept).dispatch({ ...options, headersTimeout: HEADERS_MS, bodyTimeout: 0 }, handler);
    return true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const owners = [...this.#owners.values()];
    this.#owners.clear();
    await Promise.all(owners.flatMap(({ kept, single }) => [kept.destroy(), single.destroy()]));
  }

  #owner(url: string, OwnerPool: typeof Pool): Owner {
    let owner = this.#owners.get(url);
    if (owner !== undefined) return owner;
    const before = performance.now() - UNUSED_MS;
    for (const [known, { kept, single, usedAt }] of this.#owners) {
      if (usedAt > before) continue;
      this.#owners.delete(known);
      // Ends when what is under way has ended.
      void kept.close();
      void single.close();
    }
    const { origin } = new URL(url);
    const connect = { timeout: CONNECT_MS, keepAlive: true };
    owner = {
      kept: new OwnerPool(origin, { connections: KEPT, pipelining: 1, connect }),
      // Of these there are never more than clients of this process have connections.
      single: new OwnerPool(origin, { connections: null, pipelining: 0, connect }),
      usedAt: 0,
    };
    this.#owners.set(url, owner);
    return owner;
  }
}
