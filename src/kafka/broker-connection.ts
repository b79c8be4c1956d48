import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import Connection from 'kafkajs/src/network/connection.js';
import protocol, { type Definition } from 'kafkajs/src/protocol/requests/index.js';
import type { SASLOptions } from 'kafkajs';
import { pause } from '../core/pause.js';
import { UnansweredError, UnsentError } from './kafka-error.js';
import type { Throttling } from './throttling.js';
import { WireWriter, type Call } from './wire.js';

export interface ConnectionSettings {
  readonly clientId: string;
  readonly ssl?: ConnectionOptions | true;
  readonly sasl?: SASLOptions;
  /** For TCP, TLS, the versions and SASL together. */
  readonly connectTimeoutMs: number;
  /** Told how long quotas hold connections back. */
  readonly throttling?: Throttling;
}

interface Pending {
  readonly correlation: number;
  timer: NodeJS.Timeout;
  readonly call: Call<unknown>;
  readonly timeoutMs: number;
  take(payload: Buffer): void;
  fail(cause: Error): void;
}

/** Requests in a flexible version, whose answers begin otherwise: AlterPartitionReassignments. */
const FLEXIBLE: ReadonlySet<number> = new Set([45]);
const MAX_FRAME = 512 * 1024 * 1024;
/** Brokers close what was idle for 10 minutes; a request that meets the end of its connection would have no definite result. */
const IDLE_MS = 4 * 60_000;
/** Who waits for a quota looks so often whether the connection is still there. */
const MUTED_LOOK_MS = 500;
const quiet = { namespace: () => quiet, debug() {}, info() {}, warn() {}, error() {} };

/**
 * One connection to a broker. kafkajs makes it (TCP or TLS, versions, SASL); then its frames are ours: kafkajs's own queue
 * spins a timer each millisecond, knows no deadline of a request that holds, and its decoders give one error for a whole
 * answer. A broker answers one request of a connection at a time, in order.
 */
export class BrokerConnection {
  readonly #kafka: Connection;
  readonly #socket: Socket;
  readonly #address: string;
  readonly #clientId: string;
  readonly #pending: Pending[] = [];
  #lookup = protocol.lookup({});
  #chunks: Buffer[] = [];
  #buffered = 0;
  #needed = 4;
  #correlation = 0;
  #error: Error | undefined;
  #retireAt = Infinity;
  #heardAt = performance.now();
  readonly #throttling: Throttling | undefined;
  /** Before that the broker reads nothing of this connection: a quota is spent. */
  #mutedUntil = 0;

  private constructor(
    kafka: Connection,
    socket: Socket,
    address: string,
    { clientId, throttling }: Pick<ConnectionSettings, 'clientId' | 'throttling'>,
  ) {
    this.#kafka = kafka;
    this.#socket = socket;
    this.#address = address;
    this.#clientId = clientId;
    this.#throttling = throttling;
  }

  /** @throws UnsentError */
  static async open(host: string, port: number, settings: ConnectionSettings): Promise<BrokerConnection> {
    const { clientId, ssl, sasl, connectTimeoutMs } = settings;
    let socket: Socket | undefined;
    const kafka = new Connection({
      host,
      port,
      clientId,
      logger: quiet,
      ssl: ssl === true ? {} : (ssl ?? null),
      sasl: sasl === undefined ? null : { ...sasl },
      connectionTimeout: connectTimeoutMs,
      requestTimeout: connectTimeoutMs,
      enforceRequestTimeout: false,
      reauthenticationThreshold: 0,
      socketFactory: (to) => {
        const options = { host: to.host, port: to.port };
        socket =
          to.ssl === null
            ? connectTcp(options, to.onConnect)
            : connectTls({ ...options, ...(isIP(host) === 0 && { servername: host }), ...to.ssl }, to.onConnect);
        return socket.setNoDelay(true).setKeepAlive(true, 15_000);
      },
    });
    const address = `${host}:${port}`;
    const deadline = setTimeout(
      () => socket?.destroy(new Error(`no connection within ${connectTimeoutMs} ms`)),
      connectTimeoutMs,
    );
    try {
      await kafka.connect();
      if (socket === undefined) throw new Error('no socket was made');
      const connection = new BrokerConnection(kafka, socket, address, settings);
      await connection.#handshake(sasl !== undefined);
      return connection;
    } catch (error) {
      socket?.destroy();
      kafka.requestQueue.destroy(); // its timer would run for ever
      throw new UnsentError(`no connection to the broker ${address}: ${(error as Error).message}`, { cause: error });
    } finally {
      clearTimeout(deadline);
    }
  }

  async #handshake(authenticate: boolean): Promise<void> {
    // A connection that ends now would leave kafkajs waiting for its answers.
    const ended = new Promise<never>((_, reject) => {
      this.#socket.once('close', () => reject(this.#error ?? new Error('it was closed')));
      this.#socket.once('error', (error) => (this.#error = error));
    });
    ended.catch((error: Error) => this.destroy(error));
    const { apiVersions } = await Promise.race([
      this.#kafka.send(protocol.requests.ApiVersions.protocol({ version: 2 })()),
      ended,
    ]);
    const versions = Object.fromEntries(
      apiVersions.map(({ apiKey, minVersion, maxVersion }) => [apiKey, { minVersion, maxVersion }]),
    );
    this.#lookup = protocol.lookup(versions);
    if (authenticate) {
      this.#kafka.setVersions(versions);
      this.#kafka.setSupportAuthenticationProtocol(true);
      await Promise.race([this.#kafka.authenticate(), ended]);
      const lifetime = this.#kafka.sessionLifetime.toNumber();
      // Not authenticated again in flight: kafkajs would take answers of other requests for its own.
      if (lifetime > 0) this.#retireAt = performance.now() + lifetime * 0.8;
    }
    this.#kafka.requestQueue.destroy();
    this.#kafka.processData = (chunk) => this.#receive(chunk);
    this.#heardAt = performance.now();
  }

  /** May take a request. One whose session or time is over takes none, and ends when it is idle. */
  get usable(): boolean {
    if (this.#error !== undefined) return false;
    const now = performance.now();
    if (now < this.#retireAt && (this.#pending.length > 0 || now - this.#heardAt < IDLE_MS)) return true;
    this.#retireAt = 0;
    this.#retire();
    return false;
  }

  get inFlight(): number {
    return this.#pending.length;
  }

  /** When the broker was last heard of here, on the clock of `performance`. */
  get heardAt(): number {
    return this.#heardAt;
  }

  /** Binds one of kafkajs's own requests to the broker's versions. */
  async bind<A, T>(apiKey: number, definition: Definition<A, T>, args: A): Promise<Call<T>> {
    const { request, response } = this.#lookup(apiKey, definition)(args);
    const { buffer } = await request.encode();
    return {
      name: request.apiName,
      apiKey,
      apiVersion: request.apiVersion,
      ...(!FLEXIBLE.has(apiKey) && { throttleAt: 'start' as const }),
      body: [buffer],
      decode: (payload) => response.decode(payload),
    };
  }

  /** For so many milliseconds the broker reads nothing more of this connection. */
  get mutedMs(): number {
    return Math.max(0, this.#mutedUntil - performance.now());
  }

  /** Resolves when the broker reads again, or the connection is gone. */
  async unmuted(): Promise<void> {
    while (this.mutedMs > 0 && this.#error === undefined)
      await pause(Math.min(this.mutedMs, MUTED_LOOK_MS), { ref: true });
  }

  /**
   * Where a quota holds the client back it is sent when the broker reads again, and its time runs from then on; not at all where that
   * is later than `timeoutMs`.
   * @throws UnsentError | UnansweredError; after the latter the connection is gone, and what else waited on it too.
   */
  send<T>(call: Call<T>, timeoutMs: number): Promise<T> {
    return this.mutedMs > 0 ? this.#sendUnmuted(call, timeoutMs) : this.#send(call, timeoutMs);
  }

  /** What would lie unread at the broker, with no definite result, stays here. */
  async #sendUnmuted<T>(call: Call<T>, timeoutMs: number): Promise<T> {
    for (const until = performance.now() + timeoutMs; this.mutedMs > 0 && this.#error === undefined;) {
      if (this.#mutedUntil > until)
        throw new UnsentError(
          `a quota of Kafka holds this client back: ${this.#address} reads nothing for ${Math.ceil(this.mutedMs)} ms`,
        );
      await this.unmuted();
    }
    return this.#send(call, timeoutMs);
  }

  #send<T>(call: Call<T>, timeoutMs: number): Promise<T> {
    if (this.#error !== undefined)
      return Promise.reject(new UnsentError(`the connection to ${this.#address} is gone: ${this.#error.message}`));
    return new Promise((resolve, reject) => {
      const correlation = (this.#correlation = (this.#correlation + 1) & 0x7fffffff);
      this.#pending.push({
        correlation,
        timer: this.#deadline(call, timeoutMs),
        call,
        timeoutMs,
        take: (payload) => {
          try {
            resolve(call.decode(payload));
          } catch (error) {
            this.destroy(error as Error);
            reject(
              new UnansweredError(
                `${call.name} had an answer from ${this.#address} that can not be read: ${(error as Error).message}`,
                { cause: error },
              ),
            );
          }
        },
        fail: (cause) =>
          reject(
            new UnansweredError(`${call.name} was sent to ${this.#address} and not answered: ${cause.message}`, {
              cause,
            }),
          ),
      });
      this.#write(call, correlation);
    });
  }

  #deadline({ name }: Call<unknown>, milliseconds: number): NodeJS.Timeout {
    return setTimeout(() => this.destroy(new Error(`${name} had no answer for ${milliseconds} ms`)), milliseconds);
  }

  #write(call: Call<unknown>, correlation: number): void {
    let size = 10 + Buffer.byteLength(this.#clientId);
    for (const part of call.body) size += part.length;
    const head = new WireWriter(64)
      .int32(size)
      .int16(call.apiKey)
      .int16(call.apiVersion)
      .int32(correlation)
      .string(this.#clientId)
      .take();
    this.#socket.cork();
    this.#socket.write(head);
    for (const part of call.body) this.#socket.write(part);
    this.#socket.uncork();
  }

  #receive(chunk: Buffer): void {
    this.#heardAt = performance.now();
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    while (this.#buffered >= this.#needed && this.#error === undefined) {
      const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#buffered);
      const size = bytes.readInt32BE(0);
      if (size < 4 || size > MAX_FRAME) return this.destroy(new Error(`an answer says that it has ${size} bytes`));
      this.#needed = 4 + size;
      if (bytes.length < this.#needed) {
        this.#chunks = [bytes];
        return;
      }
      const rest = (chunk = bytes.subarray(this.#needed));
      this.#chunks = rest.length === 0 ? [] : [rest];
      this.#buffered = rest.length;
      const frame = bytes.subarray(4, this.#needed);
      this.#needed = 4;
      const pending = this.#pending.shift();
      if (pending?.correlation !== frame.readInt32BE(0)) {
        pending?.fail(new Error('another answer came in its place'));
        return this.destroy(new Error('an answer came to no request'));
      }
      clearTimeout(pending.timer);
      this.#heed(pending.call, frame.subarray(4));
      pending.take(frame.subarray(4));
      if (this.#retireAt === 0) this.#retire();
    }
  }

  /** What an answer says of a quota: what is under way already waits at the broker for as long. */
  #heed({ name, throttleAt }: Call<unknown>, payload: Buffer): void {
    if (throttleAt === undefined || payload.length < 4) return;
    const milliseconds = payload.readInt32BE(throttleAt === 'start' ? 0 : payload.length - 4);
    if (milliseconds <= 0) return;
    this.#mutedUntil = Math.max(this.#mutedUntil, performance.now() + milliseconds);
    this.#throttling?.add(this.#address, name, milliseconds);
    for (const pending of this.#pending) {
      clearTimeout(pending.timer);
      pending.timer = this.#deadline(pending.call, pending.timeoutMs + Math.min(milliseconds, pending.timeoutMs));
    }
  }

  #retire(): void {
    if (this.#pending.length === 0) this.destroy(new Error('it was idle, or its session is over'));
  }

  /** Ends the connection at once; what waits on it has no definite result. */
  destroy(cause: Error): void {
    this.#error ??= cause;
    this.#socket.destroy();
    for (const pending of this.#pending.splice(0)) {
      clearTimeout(pending.timer);
      pending.fail(cause);
    }
  }
}
