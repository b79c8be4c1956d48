import { request as httpRequest, STATUS_CODES, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Chunks } from '../body.js';
import type { Refusals } from '../refusals.js';
import { CLOSE } from '../websocket/connection.js';
import type { Attempt } from './forward-call.js';
import { closeFrame, FrameBoundary } from './frame-boundary.js';
import type { Answerable, Gateway, TenantServer } from './gateway.js';
import { forwardedHeaders, NOT_OWNER, returnedHeaders, targetOf } from './headers.js';

/** How long an owner may take to answer the handshake. */
const HANDSHAKE_MS = 10_000;
/** How long a client has to read what it was sent last, and to close. */
const LINGER_MS = 2_000;
const KEEP_ALIVE_MS = 30_000;
/** Of an owner's refusal, bytes: it is an error. */
const MOST_REFUSAL = 64 * 1024;
const GOING_AWAY = closeFrame(CLOSE.shutdown, 'the connection to the tenant ended: resume with afterSequence');

/** WebSockets of tenants that other processes serve: the bytes go through as they are, both ways, with back-pressure. */
export class Tunnels {
  readonly #open = new Set<Tunnel>();

  constructor(
    private readonly gateway: Gateway,
    private readonly refusals: Refusals,
    private readonly onCount: (open: number) => void = () => undefined,
  ) {}

  /** Connects an upgrade request with the process that serves it, or answers it. False: that is this process, and is to serve it. Never rejects. */
  async connect(
    request: IncomingMessage,
    client: Duplex,
    head: Buffer,
    { tenantId, by, requestId }: { readonly tenantId: string; readonly by: TenantServer; readonly requestId: string },
  ): Promise<boolean> {
    const refusal: Record<string, string> = {};
    const answer: Answerable = {
      setHeader: (name, value) => (refusal[name] = value),
      get destroyed() {
        return client.destroyed;
      },
    };
    try {
      return await this.gateway.reach(request, answer, { slotKey: tenantId, by, repeatable: true }, (url) =>
        this.#attempt(url, request, client as Socket, head, requestId),
      );
    } catch (error) {
      this.refusals.upgrade(request, client, error, requestId, refusal);
      return true;
    }
  }

  /** Tells every client to connect again. */
  close(): void {
    for (const tunnel of [...this.#open]) tunnel.end();
  }

  #attempt(url: string, request: IncomingMessage, client: Socket, head: Buffer, requestId: string): Promise<Attempt> {
    if (client.destroyed) return Promise.resolve({ kind: 'gone' });
    return new Promise((resolve) => {
      const { protocol, hostname, port } = new URL(url);
      const headers = [
        ...forwardedHeaders(request, this.gateway.peers, requestId),
        'Connection',
        'Upgrade',
        'Upgrade',
        request.headers.upgrade ?? '',
      ];
      const asked = (protocol === 'https:' ? httpsRequest : httpRequest)({
        hostname: hostname.replace(/^\[|\]$/g, ''),
        port,
        path: targetOf(request),
        headers: ['Host', new URL(url).host, ...headers],
        agent: false,
        ...(protocol === 'https:' ? this.gateway.peers.tls?.current : {}),
        timeout: HANDSHAKE_MS,
      });
      let settled = false;
      const settle = (attempt: Attempt): void => {
        settled = true;
        client.off('close', gone);
        resolve(attempt);
      };
      const gone = (): void => {
        settle({ kind: 'gone' });
        asked.destroy();
      };
      client.once('close', gone);
      asked.on('timeout', () => asked.destroy(new Error('the owner does not answer')));
      asked.on('error', () => {
        if (!settled) settle({ kind: 'failed', why: 'refused', definite: true });
      });
      asked.on('response', (response) => {
        const passOn = (): void => refuse(client, response, body.whole());
        const body = new Chunks();
        response.on('data', (chunk: Buffer) => {
          body.push(chunk);
          if (body.length > MOST_REFUSAL) asked.destroy();
        });
        response.on('error', () => asked.destroy());
        response.on('close', () => {
          if (settled) return;
          if (!response.complete) return settle({ kind: 'failed', why: 'reset', definite: true });
          if (response.statusCode === 503) {
            const notOwner = response.headers[NOT_OWNER] !== undefined;
            return settle({
              kind: 'failed',
              why: notOwner ? 'not_owner' : 'unavailable',
              definite: true,
              ...(notOwner ? {} : { answer: passOn }),
            });
          }
          passOn();
          settle({ kind: 'answered' });
        });
      });
      asked.on('upgrade', (response, owner, first) => {
        if (settled) return void owner.destroy();
        settle({ kind: 'answered' });
        client.write(`HTTP/1.1 101 ${STATUS_CODES[101]}\r\n${headerLines(response.rawHeaders)}\r\n`, 'latin1');
        const tunnel = new Tunnel(client, owner, () => {
          this.#open.delete(tunnel);
          this.onCount(this.#open.size);
        });
        this.#open.add(tunnel);
        this.onCount(this.#open.size);
        tunnel.start(head, first);
      });
      asked.end();
    });
  }
}

const headerLines = (headers: readonly string[]): string => {
  let lines = '';
  for (let i = 0; i + 1 < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return lines;
};

/** The owner's own refusal, to the client, whose connection ends with it. */
function refuse(client: Socket, response: IncomingMessage, body: Buffer): void {
  const headers = returnedHeaders(response.rawHeaders).flatMap((text, i, all) =>
    i % 2 === 1 || /^content-length$/i.test(text) ? [] : [text, all[i + 1] ?? ''],
  );
  const head = `HTTP/1.1 ${response.statusCode} ${response.statusMessage}\r\n${headerLines([...headers, 'Content-Length', String(body.length), 'Connection', 'close'])}\r\n`;
  client.once('finish', () => client.destroy());
  client.end(Buffer.concat([Buffer.from(head, 'latin1'), body]));
}

/** One WebSocket through this process. A client whose owner goes away is told so, where a frame may be put in. */
class Tunnel {
  readonly #frames = new FrameBoundary();
  #ending = false;

  constructor(
    private readonly client: Socket,
    private readonly owner: Socket,
    private readonly onEnd: () => void,
  ) {}

  start(fromClient: Buffer, fromOwner: Buffer): void {
    const { client, owner } = this;
    for (const socket of [client, owner]) {
      socket.setTimeout(0);
      socket.setNoDelay(true);
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      // What went wrong ends in a close, which is seen below.
      socket.on('error', () => undefined);
    }
    owner.on('data', (chunk: Buffer) => this.#toClient(chunk));
    client.on('drain', () => owner.resume());
    owner.once('end', () => this.end());
    owner.once('close', () => this.end());
    client.once('close', () => {
      owner.destroy();
      this.onEnd();
    });
    if (fromOwner.length > 0) this.#toClient(fromOwner);
    if (fromClient.length > 0) owner.write(fromClient);
    // Ends the owner's side when the client ends its own.
    client.pipe(owner);
    if (owner.destroyed || client.destroyed) this.end();
  }

  /** Closes the client's side after what is on its way, and then the owner's. */
  end(): void {
    if (this.#ending) return;
    this.#ending = true;
    const { client } = this;
    if (client.destroyed) return void this.owner.destroy();
    if (this.#frames.open) client.write(GOING_AWAY);
    client.end();
    setTimeout(() => client.destroy(), LINGER_MS).unref();
  }

  #toClient(chunk: Buffer): void {
    if (this.#ending) return;
    this.#frames.pass(chunk);
    if (!this.client.write(chunk)) this.owner.pause();
  }
}
