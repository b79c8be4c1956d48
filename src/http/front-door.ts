import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { Settings } from '../config/settings.js';
import { StatefoldError } from '../core/errors.js';
import { listenFailure } from '../core/startup-error.js';
import { AddressConnections } from './address-connections.js';
import { answerError, answerJson, requestIdOf } from './answer.js';
import { isForwarded, NOT_OWNER } from './gateway/headers.js';
import { pathOf } from './parameters.js';
import type { PeerTls } from './gateway/peer-tls.js';
import { Pipelines } from './pipelining.js';
import { health, readiness } from './probes.js';
import { refuseUpgrade } from './problem.js';

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

interface ClientError extends Error {
  readonly code?: string;
}

const refused = (status: string): string => `HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`;
const REFUSED: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: refused('431 Request Header Fields Too Large'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: refused('413 Payload Too Large'),
  ERR_HTTP_REQUEST_TIMEOUT: refused('408 Request Timeout'),
};

/** Who serves what comes in. */
export interface Household {
  readonly request: Serve;
  /** A client that asks before it sends its body. */
  readonly checkContinue: Serve;
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

export type FrontDoorSettings = Pick<
  Settings,
  | 'port'
  | 'host'
  | 'maxConnections'
  | 'maxConnectionsPerAddress'
  | 'headersTimeoutMs'
  | 'requestTimeoutMs'
  | 'keepAliveTimeoutMs'
>;

/**
 * The port of the service. It is taken before anything is made, so that a start on a port that is taken leaves nothing behind; and
 * until the parts behind it are there it answers 503, which clients repeat, in place of a connection that hangs or a 404.
 */
export class FrontDoor {
  readonly server: Server;
  readonly #settings: FrontDoorSettings;
  readonly #pipelines = new Pipelines();
  readonly #untimed = new WeakSet<Duplex>();
  #peers: Server | undefined;
  #household: Household = startingHousehold(() => this.#awaited);
  #awaited: string | undefined;

  constructor(settings: FrontDoorSettings) {
    this.#settings = settings;
    this.server = this.#hung(createServer(this.#limits));
    const addresses = new AddressConnections(settings.maxConnectionsPerAddress);
    this.server.on('connection', (socket) => {
      if (!addresses.takes(socket)) socket.destroy();
    });
  }

  get #limits(): ServerOptions {
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = this.#settings;
    return {
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(1_000, headersTimeoutMs),
      noDelay: true,
      // Node would answer such a request before anybody has counted it.
      requireHostHeader: false,
    };
  }

  /** What comes in there is the household's. */
  #hung(server: Server): Server {
    server.maxConnections = this.#settings.maxConnections;
    server.on('request', (request, response) => {
      if (this.#takes(request, response)) this.#household.request(request, response);
    });
    server.on('checkContinue', (request, response) => {
      if (this.#takes(request, response)) this.#household.checkContinue(request, response);
    });
    server.on('checkExpectation', (request, response) => {
      if (this.#takes(request, response)) response.writeHead(417).end();
    });
    server.on('clientError', (error: ClientError, socket) => this.#failed(error, socket));
    server.on('upgrade', (request, socket, head) => this.#household.upgrade(request, socket, head));
    return server;
  }

  /** False: the household has nothing to do for it. */
  #takes(request: IncomingMessage, response: ServerResponse): boolean {
    if (!this.#pipelines.takes(request, response)) return false;
    if (request.headers.host !== undefined || request.httpVersion !== '1.1') return true;
    response.writeHead(400, { Connection: 'close' }).end();
    return false;
  }

  /** The request has no time by which it must have arrived: whoever reads it sees to it that it goes on. */
  readonly untimed = (request: IncomingMessage): void => {
    const { socket } = request;
    this.#untimed.add(socket);
    request.once('close', () => this.#untimed.delete(socket));
  };

  /** As Node does it by itself where nobody listens, but for a request that may take its time. */
  #failed(error: ClientError, socket: Duplex): void {
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && this.#untimed.has(socket)) return;
    const response = this.#pipelines.lastOf(socket);
    const isAnswered = response !== undefined && response.headersSent && !response.writableFinished;
    if (socket.writable && !isAnswered) socket.write(REFUSED[error.code ?? ''] ?? refused('400 Bad Request'));
    socket.destroy(error);
  }

  /** With the one for other processes, where there is one. */
  get servers(): readonly Server[] {
    return this.#peers === undefined ? [this.server] : [this.server, this.#peers];
  }

  /** Resolves with the port when connections are accepted. @throws StartupError that names the setting to change */
  async listen(): Promise<number> {
    return this.#listen(this.server, 'PORT', this.#settings.port);
  }

  /** Takes the port for other processes too, to which both sides show a certificate; 0: any that is free. Resolves with it. @throws StartupError */
  async listenToPeers(tls: PeerTls, port: number): Promise<number> {
    const options = { ...this.#limits, ...tls.current, requestCert: true, rejectUnauthorized: true };
    const peers = createTlsServer(options);
    tls.onRenewed((certificate) => peers.setSecureContext(certificate));
    this.#peers = this.#hung(peers);
    return this.#listen(peers, 'ADVERTISED_URL', port);
  }

  async #listen(server: Server, setting: string, port: number): Promise<number> {
    const { host } = this.#settings;
    if (!server.listening)
      await new Promise<void>((resolve, reject) => {
        const failed = (error: Error): void => reject(listenFailure(error, setting, host, port));
        server.once('error', failed);
        server.listen(port, host, () => {
          server.off('error', failed);
          resolve();
        });
      });
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /** The start waits for a part, by its name in the checks of `/health/ready`; undefined: it goes on. */
  awaits(part: string | undefined): void {
    this.#awaited = part;
  }

  /** From now on the household serves, also on the connections that are open. */
  open(household: Household): void {
    this.#household = household;
  }

  /** Cuts what is there; for a start that failed before anybody was let in. */
  async close(): Promise<void> {
    const closed = this.servers.map(
      (server) =>
        new Promise<void>((resolve) => {
          server.close(() => resolve());
          server.closeAllConnections();
        }),
    );
    await Promise.all(closed);
  }
}

const starting = (awaited: string | undefined, details?: object): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    `The service is starting${awaited === undefined ? '' : `, and its ${awaited} can not be reached yet`}: send the request again in a moment.`,
    details && { details: { ...details } },
  );

/** `awaited`: the part that the start waits for now. */
function startingHousehold(awaited: () => string | undefined): Household {
  const serve: Serve = (request, response) => {
    const requestId = requestIdOf(request);
    const path = pathOf(request.url ?? '');
    const reads = request.method === 'GET' || request.method === 'HEAD';
    // Another process takes this one for the owner, as it was before: it is to ask the next one.
    if (isForwarded(request)) response.setHeader(NOT_OWNER, '1');
    // It tells that the process lives.
    if (path === health.path && reads) return answerJson(response, 200, requestId, '{"status":"ok"}');
    const part = awaited();
    const checks = part === undefined ? {} : { [part]: 'down' };
    answerError(response, starting(part, path === readiness.path && reads ? { checks } : undefined), requestId);
  };
  return {
    request: serve,
    checkContinue: serve,
    upgrade: (request, socket) =>
      refuseUpgrade(
        socket,
        starting(awaited()),
        requestIdOf(request),
        isForwarded(request) ? { [NOT_OWNER]: '1' } : {},
      ),
  };
}
