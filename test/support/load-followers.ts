import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { WebSocket } from 'ws';
import type { Delivery, Notification } from './checker.js';
import type { Served } from './load-world.js';
import { pick } from './pick.js';
import { API_KEY, until } from './service.js';

/** The fields that every channel carries, in one order, so that records can be compared as text. */
const FIELDS = [
  'sequence',
  'projectionId',
  'className',
  'key',
  'aggregateId',
  'aggregateType',
  'eventId',
  'version',
  'state',
  'timestamp',
  'cause',
] as const;
export const notificationOf = (record: Record<string, unknown>): Notification =>
  pick(record as unknown as Notification, FIELDS);

/** Follows a projection over WebSocket, and goes on after each end of the connection from the last sequence that it has. */
export class StreamFollower {
  readonly received: Notification[] = [];
  connections = 0;
  readonly #world: Served;
  readonly #projectionId: string;
  #socket: WebSocket | undefined;
  #stopped = false;

  constructor(t: Pick<TestContext, 'after'>, world: Served, projectionId: string) {
    this.#world = world;
    this.#projectionId = projectionId;
    t.after(() => this.stop());
    void this.#follow();
  }

  stop(): void {
    this.#stopped = true;
    this.#socket?.terminate();
  }

  /** The last sequence received. */
  get last(): number {
    return this.received.at(-1)?.sequence ?? 0;
  }

  async #follow(): Promise<void> {
    while (!this.#stopped) {
      const { url } = await this.#world.up();
      if (this.#stopped) return;
      const socket = new WebSocket(
        `${url.replace('http', 'ws')}/projections/${this.#projectionId}/stream?afterSequence=${this.last}`,
        { headers: { 'x-api-key': API_KEY } },
      );
      this.#socket = socket;
      socket.on('open', () => this.connections++);
      socket.on('message', (data: Buffer) => {
        const message = JSON.parse(data.toString()) as Record<string, unknown>;
        if (message['type'] === 'state_changed') this.received.push(notificationOf(message));
        else if (message['type'] === 'ping') socket.send('{"type":"pong"}');
      });
      await new Promise<void>((resolve) => {
        socket.on('error', () => undefined);
        socket.once('close', () => resolve());
      });
      await new Promise((resolve) => setTimeout(resolve, 20)); // the end shows here before a new service is awaited
    }
  }
}

/** Follows a projection by long polling. */
export class PollingFollower {
  readonly received: Notification[] = [];
  readonly #world: Served;
  readonly #projectionId: string;
  readonly #stop = new AbortController();

  constructor(t: Pick<TestContext, 'after'>, world: Served, projectionId: string) {
    this.#world = world;
    this.#projectionId = projectionId;
    t.after(() => this.stop());
    void this.#follow();
  }

  stop(): void {
    this.#stop.abort();
  }

  get last(): number {
    return this.received.at(-1)?.sequence ?? 0;
  }

  async #follow(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const { url } = await this.#world.up();
      try {
        const path = `/projections/${this.#projectionId}/notifications?afterSequence=${this.last}&limit=1000&waitSeconds=2`;
        const answer = await fetch(url + path, { headers: { 'x-api-key': API_KEY }, signal: this.#stop.signal });
        const { notifications } = (await answer.json()) as { notifications?: Record<string, unknown>[] };
        this.received.push(...(notifications ?? []).map(notificationOf));
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20)); // lost: the next one begins where this one did
      }
    }
  }
}

/** Receives webhooks and checks their signature. */
export class WebhookReceiver {
  readonly deliveries: Delivery[] = [];
  /** Returned by the upload. */
  secret = '';
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(t: Pick<TestContext, 'after'>): Promise<WebhookReceiver> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        receiver.#take(Buffer.concat(chunks).toString(), request.headers as Record<string, string>);
        response.writeHead(204).end();
      });
    });
    const receiver = new WebhookReceiver(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  get sequences(): ReadonlySet<number> {
    return new Set(this.deliveries.map(({ notification }) => notification.sequence));
  }

  #take(body: string, headers: Record<string, string>): void {
    let signed = true;
    try {
      new Webhook(this.secret).verify(body, headers);
    } catch {
      signed = false;
    }
    const { data } = JSON.parse(body) as { data: Record<string, unknown> };
    this.deliveries.push({ id: headers['webhook-id'] ?? '', signed, notification: notificationOf(data) });
  }
}

/** Waits until every follower has come to the sequence. */
export async function caughtUp(
  sequences: ReadonlySet<number>,
  last: number,
  followers: readonly { readonly last: number }[],
  webhook: WebhookReceiver | undefined,
): Promise<void> {
  await until(() => followers.every((follower) => follower.last >= last));
  await until(() => webhook === undefined || sequences.size <= webhook.sequences.size, 60_000);
}
