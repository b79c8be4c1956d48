import { performance } from 'node:perf_hooks';
import type { buildConnector, Dispatcher, Pool } from 'undici';
import type { PeerTls } from './peer-tls.js';

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

interface LoadedClient {
  readonly Pool: typeof Pool;
  readonly connect: buildConnector.connector;
}

/** Connections to the other processes: kept ones for what is short, and one of its own for what may last or must not be sent twice. */
export class OwnerPools {
  readonly #owners = new Map<string, Owner>();
  readonly #tls: PeerTls | undefined;
  #loading: Promise<LoadedClient> | undefined;
  #closed = false;

  constructor(tls?: PeerTls) {
    this.#tls = tls;
  }

  /** The client is a third of all packages that a start would load: a process that is alone never does. */
  load(): Promise<LoadedClient> {
    return (this.#loading ??= import('undici').then(({ Pool, buildConnector }) => ({
      Pool,
      connect: connectorOf(buildConnector, this.#tls),
    })));
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
    const client = await this.load();
    if (this.#closed) return false;
    const owner = this.#owner(url, client);
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

  #owner(url: string, { Pool, connect }: LoadedClient): Owner {
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
    owner = {
      kept: new Pool(origin, { connections: KEPT, pipelining: 1, connect }),
      // Of these there are never more than clients of this process have connections.
      single: new Pool(origin, { connections: null, pipelining: 0, connect }),
      usedAt: 0,
    };
    this.#owners.set(url, owner);
    return owner;
  }
}

/** Connects to another process, with the certificate of the time. */
export function connectorOf(build: typeof buildConnector, tls: PeerTls | undefined): buildConnector.connector {
  const connector = (): buildConnector.connector => build({ timeout: CONNECT_MS, keepAlive: true, ...tls?.current });
  let connect = connector();
  // Connections of before stay as long as they are good.
  tls?.onRenewed(() => (connect = connector()));
  return (options, callback) => connect(options, callback);
}
