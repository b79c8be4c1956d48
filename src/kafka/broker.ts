import { backOff, type BackOff } from '../core/back-off.js';
import { BrokerConnection, type ConnectionSettings } from './broker-connection.js';
import { UnsentError } from './kafka-error.js';
import type { Call } from './wire.js';

/** What a connection is for. A broker serves one request of a connection at a time, so that none waits behind those of another lane. */
export type Lane = 'query' | 'admin' | 'produce' | 'fetch' | 'follow';

/** A broker that failed is asked after the others for so long. */
const FAILING_MS = 10_000;
const BACK_OFF_MS: BackOff = { first: 50, last: 1000 };

/** One broker: its connections, opened when they are needed, a few a lane. */
export class Broker {
  readonly #settings: ConnectionSettings;
  readonly #open = new Map<string, BrokerConnection>();
  readonly #opening = new Map<string, Promise<BrokerConnection>>();
  #failures = 0;
  #retryAt = 0;
  #lastFailure: Error | undefined;
  #failingUntil = 0;
  #closed = false;

  constructor(
    readonly host: string,
    readonly port: number,
    settings: ConnectionSettings,
  ) {
    this.#settings = settings;
  }

  get address(): string {
    return `${this.host}:${this.port}`;
  }

  /** It could not be reached a moment ago, or left a request unanswered. */
  get isFailing(): boolean {
    return performance.now() < this.#failingUntil;
  }

  /** The open connection, if there is one. */
  current(lane: Lane, index = 0): BrokerConnection | undefined {
    const connection = this.#open.get(`${lane}${index}`);
    if (connection === undefined || connection.usable) return connection;
    this.#open.delete(`${lane}${index}`);
    return undefined;
  }

  /** Fails fast while the broker can't be reached: it is tried again after 50 ms, later each second. @throws UnsentError */
  async connection(lane: Lane, index = 0): Promise<BrokerConnection> {
    const current = this.current(lane, index);
    if (current !== undefined) return current;
    const name = `${lane}${index}`;
    let opening = this.#opening.get(name);
    if (opening === undefined) {
      if (this.#closed) throw new UnsentError('the log is closed');
      if (performance.now() < this.#retryAt)
        throw new UnsentError(this.#lastFailure?.message, { cause: this.#lastFailure });
      opening = this.#connect(name).finally(() => this.#opening.delete(name));
      this.#opening.set(name, opening);
    }
    return opening;
  }

  async #connect(name: string): Promise<BrokerConnection> {
    try {
      const connection = await BrokerConnection.open(this.host, this.port, this.#settings);
      if (this.#closed) {
        connection.destroy(new Error('the log is closed'));
        throw new UnsentError('the log is closed');
      }
      this.#failures = 0;
      this.#open.set(name, connection);
      return connection;
    } catch (error) {
      this.#lastFailure = error as Error;
      this.#failingUntil = performance.now() + FAILING_MS;
      this.#retryAt = performance.now() + backOff(this.#failures++, BACK_OFF_MS);
      throw error;
    }
  }

  /** Sends on the lane, opening its connection when there is none. */
  async send<T>(lane: Lane, call: Call<T>, timeoutMs: number): Promise<T> {
    const connection = this.current(lane) ?? (await this.connection(lane));
    return this.#heeded(connection, call, timeoutMs);
  }

  /** On a connection of this broker that the caller holds. */
  async sendOn<T>(connection: BrokerConnection, call: Call<T>, timeoutMs: number): Promise<T> {
    return this.#heeded(connection, call, timeoutMs);
  }

  async #heeded<T>(connection: BrokerConnection, call: Call<T>, timeoutMs: number): Promise<T> {
    const since = performance.now();
    try {
      return await connection.send(call, timeoutMs);
    } catch (error) {
      // One that a quota holds back is none that failed.
      if (connection.mutedMs === 0) {
        this.#failingUntil = performance.now() + FAILING_MS;
        this.#suspect(since);
      }
      throw error;
    }
  }

  /** The network may be cut, and nothing said so: idle connections that heard nothing since would each cost a deadline. */
  #suspect(since: number): void {
    for (const [name, connection] of this.#open) {
      if (connection.heardAt >= since || connection.inFlight > 0) continue;
      connection.destroy(new Error('another connection to the broker failed'));
      this.#open.delete(name);
    }
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#open.values()) connection.destroy(new Error('the log is closed'));
    this.#open.clear();
  }
}
