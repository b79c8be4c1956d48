import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { hasCode, type StatefoldError } from '../core/errors.js';
import { requestIdOf } from './answer.js';
import type { Admission } from './admission.js';
import type { Gateway } from './gateway/gateway.js';
import { serverOf } from './gateway/guard.js';
import { isForwarded } from './gateway/headers.js';
import type { Tunnels } from './gateway/tunnels.js';
import type { Origins } from './origins.js';
import type { Refusals } from './refusals.js';
import type { FoundUpgrade } from './router.js';

/** Of a turn: what a socket that is upgraded costs, about. */
const UPGRADE_COST = 4;

export interface UpgradesOptions {
  readonly admission: Pick<Admission, 'authenticator' | 'turns' | 'dues'>;
  readonly gateway: Pick<Gateway, 'serves'>;
  readonly tunnels: Pick<Tunnels, 'connect'>;
  readonly origins: Pick<Origins, 'refusal'>;
  readonly refusals: Pick<Refusals, 'upgrade'>;
  /** Why the process takes no such request at all. */
  readonly refusal: (request: IncomingMessage, isProbe: boolean) => StatefoldError | undefined;
  /** @throws StatefoldError where no route takes an upgrade, or it is asked for wrongly */
  readonly find: (request: IncomingMessage) => FoundUpgrade;
}

/** Requests that become WebSockets: taken here on the tenant's turn, or led to the process that serves the tenant. */
export class Upgrades {
  readonly #options: UpgradesOptions;

  constructor(options: UpgradesOptions) {
    this.#options = options;
  }

  readonly take = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const { refusal, origins, find, refusals } = this.#options;
    const requestId = requestIdOf(request);
    let found: FoundUpgrade;
    try {
      const refused = refusal(request, false) ?? (isForwarded(request) ? undefined : origins.refusal(request));
      if (refused !== undefined) throw refused;
      found = find(request);
    } catch (error) {
      return refusals.upgrade(request, socket, error, requestId);
    }
    const ignore = (): void => undefined;
    socket.on('error', ignore);
    const take = (): void => {
      socket.off('error', ignore);
      if (!socket.destroyed) void found.take(request, socket, head, requestId);
    };
    if (this.#takesHere(request, found, take)) return;
    this.#lead(request, socket, head, requestId, found).then(
      (answered) => {
        if (answered) socket.off('error', ignore);
        else take();
      },
      () => socket.destroy(),
    );
  };

  /** Whether it is this process that serves the tenant, as far as can be told at once. */
  #takesHere(request: IncomingMessage, found: FoundUpgrade, take: () => void): boolean {
    const { gateway } = this.#options;
    const { authenticator, turns, dues } = this.#options.admission;
    const known = authenticator.find(request);
    if (known === undefined || authenticator.isClosed(known.tenantId)) return false;
    if (!gateway.serves(known.tenantId, serverOf(found, request))) return false;
    const turn = turns.enter(known.tenantId, UPGRADE_COST);
    dues.turned(request);
    if (turn === undefined) take();
    else void turn.then(take);
    return true;
  }

  /** Resolves with whether it was answered; if not, this process is to take it. */
  async #lead(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    requestId: string,
    found: FoundUpgrade,
  ): Promise<boolean> {
    const { admission, tunnels, refusals } = this.#options;
    try {
      const { tenantId } = await admission.authenticator.admit(request, found.scope);
      return await tunnels.connect(request, socket, head, { tenantId, by: serverOf(found, request), requestId });
    } catch (error) {
      // Whoever takes the upgrade tells what is wrong with the key.
      if (hasCode(error, 'UNAUTHENTICATED')) return false;
      refusals.upgrade(request, socket, error, requestId);
      return true;
    }
  }
}
