// A link between clients and one broker that can be broken while it is used. The broker advertises the proxy's address, so
// that every connection of a client passes it.
import { once } from 'node:events';
import { createServer, connect, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { freePort, startKafka, type KafkaCluster, type KafkaOptions } from './kafka.js';

/** What happens to bytes of one direction. `stall`: they are not read any more, nor is the end of the stream: half-open. */
export type Treatment = 'pass' | 'stall' | { readonly bytesPerMs: number } | { readonly latencyMs: number };

/** The fixed start of every request of Kafka's protocol. */
export interface RequestHead {
  /** 0 is Produce, 1 Fetch, 3 Metadata. */
  readonly apiKey: number;
  readonly apiVersion: number;
  readonly correlationId: number;
  /** Bytes after the size itself. */
  readonly size: number;
}

/** What becomes of one request: a lost one never reaches the broker; of a lost reply the client never hears. */
export type Fate = 'pass' | 'lose request' | 'lose reply';

export const PRODUCE = 0;

/** How often a slow link passes bytes, in milliseconds. */
const TICK_MS = 5;
const HEAD_BYTES = 12;

/** A switch that those who want to pass can wait for. */
class Gate {
  #treatment: Treatment = 'pass';
  #waiting: (() => void)[] = [];

  set(treatment: Treatment): void {
    this.#treatment = treatment;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** How bytes may pass now; waits while none may. */
  async open(): Promise<Exclude<Treatment, 'stall'>> {
    for (;;) {
      const now = this.#treatment;
      if (now !== 'stall') return now;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
}

/** Cuts a stream into frames: a size of four bytes, then so many bytes. Both together come out. */
async function* frames(from: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of from) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const size = 4 + rest.readInt32BE(0);
      yield rest.subarray(0, size);
      rest = rest.subarray(size);
    }
  }
}

class Connection {
  readonly up = new Gate();
  readonly down = new Gate();
  readonly #client: Socket;
  readonly #broker: Socket;
  /** Correlation ids whose replies the client shall not see. */
  readonly #lost = new Set<number>();

  constructor(client: Socket, broker: Socket) {
    this.#client = client;
    this.#broker = broker;
    // What breaks is seen by whoever reads; this is for what breaks when nobody does.
    for (const socket of [client, broker]) socket.setNoDelay(true).on('error', () => undefined);
  }

  /** Resolves when the connection is over. */
  async run(judge: (head: RequestHead) => Fate): Promise<void> {
    const up = this.#pump(this.#client, this.#broker, this.up, (frame) => this.#passes(frame, judge));
    const down = this.#pump(this.#broker, this.#client, this.down, (frame) => !this.#lost.delete(frame.readInt32BE(4)));
    // A client that has given up takes nothing back that it sent: the broker sees an end, after all of it.
    await Promise.all([up.catch(() => this.#broker.end()), down.catch(() => this.reset())]);
  }

  /** Both ends see a reset. */
  reset(): void {
    for (const socket of [this.#client, this.#broker]) if (!socket.destroyed) socket.resetAndDestroy();
  }

  #passes(frame: Buffer, judge: (head: RequestHead) => Fate): boolean {
    if (frame.length < HEAD_BYTES) return true;
    const head = {
      size: frame.readInt32BE(0),
      apiKey: frame.readInt16BE(4),
      apiVersion: frame.readInt16BE(6),
      correlationId: frame.readInt32BE(8),
    };
    const fate = judge(head);
    if (fate === 'lose reply') this.#lost.add(head.correlationId);
    return fate !== 'lose request';
  }

  async #pump(from: Socket, to: Socket, gate: Gate, passes: (frame: Buffer) => boolean): Promise<void> {
    try {
      for await (const frame of frames(from as AsyncIterable<Buffer>))
        if (passes(frame)) await this.#deliver(frame, to, gate);
    } finally {
      await gate.open(); // an end is held as bytes are
    }
    to.end();
  }

  async #deliver(frame: Buffer, to: Socket, gate: Gate): Promise<void> {
    for (let at = 0; at < frame.length;) {
      const treatment = await gate.open();
      const slow = treatment !== 'pass' && 'bytesPerMs' in treatment;
      if (slow) await delay(TICK_MS);
      else if (treatment !== 'pass' && at === 0) await delay(treatment.latencyMs);
      const end = slow ? Math.min(frame.length, at + Math.ceil(treatment.bytesPerMs * TICK_MS)) : frame.length;
      if (to.destroyed) return;
      if (!to.write(frame.subarray(at, end)))
        await new Promise<unknown>((resolve) => to.once('drain', resolve).once('close', resolve));
      at = end;
    }
  }
}

/** One broker's link. Each switch acts at once, on connections that are there and on later ones. */
export class TcpProxy {
  readonly port: number;
  /** Where the broker itself listens, on this machine. */
  target: number;
  readonly #connections = new Set<Connection>();
  #server: Server | undefined;
  #treatments: { up: Treatment; down: Treatment } = { up: 'pass', down: 'pass' };
  #judge: (head: RequestHead) => Fate = () => 'pass';
  #lost = 0;

  private constructor(port: number, target: number) {
    this.port = port;
    this.target = target;
  }

  static async start(target = 0): Promise<TcpProxy> {
    const proxy = new TcpProxy(await freePort(), target);
    await proxy.accept();
    return proxy;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Requests and replies that were lost so far. */
  get lost(): number {
    return this.#lost;
  }

  /** How bytes pass from now on: `up` is to the broker. A direction that is not named stays as it is. */
  set(treatments: { readonly up?: Treatment; readonly down?: Treatment }): void {
    this.#treatments = { ...this.#treatments, ...treatments };
    for (const connection of this.#connections) this.#apply(connection);
  }

  /** Holds what is sent on the connections that are there, by clients alone or both ways; later connections pass, and overtake it. */
  stallPresent(which: 'requests' | 'both' = 'both'): void {
    for (const connection of this.#connections) {
      connection.up.set('stall');
      if (which === 'both') connection.down.set('stall');
    }
  }

  /** What becomes of each request from now on. */
  judge(fate: (head: RequestHead) => Fate): void {
    this.#judge = fate;
  }

  /** Everything passes again, also what was held; new connections are accepted. */
  async heal(): Promise<void> {
    this.judge(() => 'pass');
    this.set({ up: 'pass', down: 'pass' });
    await this.accept();
  }

  /** Resets the connections that are there. */
  reset(): void {
    for (const connection of this.#connections) connection.reset();
  }

  /** New connections are refused, as if nobody listened; those that are there go on. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    // Closed to new ones at once; its event waits for the connections.
    server.close();
    await new Promise((resolve) => setImmediate(resolve));
  }

  async accept(): Promise<void> {
    if (this.#server !== undefined) return;
    const server = createServer({ allowHalfOpen: true }, (client) => this.#connect(client));
    this.#server = server;
    server.listen(this.port, '127.0.0.1');
    await once(server, 'listening');
  }

  async close(): Promise<void> {
    await this.refuse();
    this.set({ up: 'pass', down: 'pass' });
    this.reset();
  }

  #connect(client: Socket): void {
    const broker = connect({ port: this.target, host: '127.0.0.1', allowHalfOpen: true });
    const connection = new Connection(client, broker);
    this.#connections.add(connection);
    this.#apply(connection);
    void connection.run((head) => this.#fate(head)).finally(() => this.#connections.delete(connection));
  }

  #apply(connection: Connection): void {
    connection.up.set(this.#treatments.up);
    connection.down.set(this.#treatments.down);
  }

  #fate(head: RequestHead): Fate {
    const fate = this.#judge(head);
    if (fate !== 'pass') this.#lost++;
    return fate;
  }
}

/** A Kafka that clients reach through proxies alone, one a broker, in the brokers' order. Closed when the test ends. */
export async function startKafkaBehindProxies(
  t: Pick<TestContext, 'after'>,
  options: Omit<KafkaOptions, 'advertised' | 'ports'> = {},
): Promise<KafkaCluster & { readonly proxies: readonly TcpProxy[] }> {
  const proxies = await Promise.all(Array.from({ length: options.brokers ?? 1 }, () => TcpProxy.start()));
  t.after(() => Promise.all(proxies.map((proxy) => proxy.close())));
  const cluster = await startKafka({ ...options, advertised: (id) => proxies[id - 1]?.address ?? '' });
  t.after(() => cluster.close());
  cluster.nodes.forEach((node, i) => {
    const proxy = proxies[i];
    if (proxy !== undefined) proxy.target = node.port;
  });
  return { ...cluster, proxies };
}
