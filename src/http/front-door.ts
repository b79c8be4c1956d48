import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Settings } from '../config/settings.js';
import { StatefoldError } from '../core/errors.js';
import { listenFailure } from '../core/startup-error.js';
import { answerError, answerJson, requestIdOf } from './answer.js';
import { isForwarded, NOT_OWNER } from './gateway/headers.js';
import { Pipelines } from './pipelining.js';
import { health, readiness } from './probes.js';
import { refuseUpgrade } from './problem.js';

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/** Who serves what comes in. */
export interface Household {
  readonly request: Serve;
  /** A client that asks before it sends its body. */
  readonly checkContinue: Serve;
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

export type FrontDoorSettings = Pick<
  Settings,
  'port' | 'host' | 'maxConnections' | 'headersTimeoutMs' | 'requestTimeoutMs' | 'keepAliveTimeoutMs'
>;

/**
 * The port of the service. It is taken before anything is made, so that a start on a port that is taken leaves nothing behind; and
 * until the parts behind it are there it answers 503, which clients repeat, in place of a connection that hangs or a 404.
 */
export class FrontDoor {
  readonly server: Server;
  readonly #settings: FrontDoorSettings;
  readonly #pipelines = new Pipelines();
  #household: Household = STARTING;

  constructor(settings: FrontDoorSettings) {
    this.#settings = settings;
    this.server = createServer(
      {
        headersTimeout: settings.headersTimeoutMs,
        requestTimeout: settings.requestTimeoutMs,
        keepAliveTimeout: settings.keepAliveTimeoutMs,
        connectionsCheckingInterval: Math.min(1_000, settings.headersTimeoutMs),
        noDelay: true,
      },
      (request, response) => {
        if (this.#pipelines.takes(request, response)) this.#household.request(request, response);
      },
    );
    this.server.maxConnections = settings.maxConnections;
    this.server.on('checkContinue', (request, response) => {
      if (this.#pipelines.takes(request, response)) this.#household.checkContinue(request, response);
    });
    this.server.on('upgrade', (request, socket, head) => this.#household.upgrade(request, socket, head));
  }

  /** Resolves with the port when connections are accepted. @throws StartupError that names the setting to change */
  async listen(): Promise<number> {
    const { host, port } = this.#settings;
    if (!this.server.listening)
      await new Promise<void>((resolve, reject) => {
        const failed = (error: Error): void => reject(listenFailure(error, 'PORT', host, port));
        this.server.once('error', failed);
        this.server.listen(port, host, () => {
          this.server.off('error', failed);
          resolve();
        });
      });
    const address = this.server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /** From now on the household serves, also on the connections that are open. */
  open(household: Household): void {
    this.#household = household;
  }

  /** Cuts what is there; for a start that failed before anybody was let in. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.server.close(() => resolve());
      this.server.closeAllConnections();
    });
  }
}

const starting = (details?: object): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'The service is starting: send the request again in a moment.',
    details && { details: { ...details } },
  );

const whileStarting: Serve = (request, response) => {
  const requestId = requestIdOf(request);
  const path = (request.url ?? '').split('?', 1)[0];
  const reads = request.method === 'GET' || request.method === 'HEAD';
  // Another process takes this one for the owner, as it was before: it is to ask the next one.
  if (isForwarded(request)) response.setHeader(NOT_OWNER, '1');
  // It tells that the process lives.
  if (path === health.path && reads) answerJson(response, 200, requestId, '{"status":"ok"}');
  else answerError(response, starting(path === readiness.path && reads ? { checks: {} } : undefined), requestId);
};

const STARTING: Household = {
  request: whileStarting,
  checkContinue: whileStarting,
  upgrade: (request, socket) =>
    refuseUpgrade(socket, starting(), requestIdOf(request), isForwarded(request) ? { [NOT_OWNER]: '1' } : {}),
};
