import { versionOf } from '../config/project-root.js';
import { StatefoldError } from '../core/errors.js';
import { BUDGET_KINDS } from '../core/budget.js';
import { eventLoop, WORK_KINDS } from '../core/event-loop.js';
import { refusalOf, type PeerClient } from '../http/gateway/peer-client.js';
import type { KnownProcess, Processes } from '../http/processes.js';
import type { Ownership } from '../placement/ownership.js';
import type { Ground } from './ground.js';

const ASKING_MS = 10_000;

/** This process and those that share the slots with it, for the one who runs them. */
export class KnownProcesses implements Processes {
  readonly #ground: Ground;
  readonly #ownership: Pick<Ownership, 'shares'>;
  readonly #peers: Pick<PeerClient, 'ask'>;
  readonly #startedAt: string;

  constructor(ground: Ground, ownership: Pick<Ownership, 'shares'>, peers: Pick<PeerClient, 'ask'>) {
    this.#ground = ground;
    this.#ownership = ownership;
    this.#peers = peers;
    this.#startedAt = new Date(ground.clock.now() - Math.round(process.uptime() * 1000)).toISOString();
  }

  list(): readonly KnownProcess[] {
    const { peerUrl } = this.#ground;
    const shares = this.#ownership.shares().map(({ process: at, ...slots }) => ({
      ...(at === 'self' ? { url: peerUrl, self: true as const } : { url: at.url }),
      ...slots,
    }));
    // One that only takes requests has no slots.
    return shares.some(({ url }) => url === peerUrl)
      ? shares
      : [{ url: peerUrl, self: true, owned: 0, standbys: 0, notified: 0 }, ...shares];
  }

  activity(): object {
    const { root, peerUrl, settings, metrics, budget, lastHour } = this.#ground;
    return {
      url: peerUrl,
      version: versionOf(root),
      startedAt: this.#startedAt,
      roles: settings.roles,
      samples: lastHour.samples,
      moves: lastHour.moves,
      holds: WORK_KINDS.map((work) => ({
        work,
        longestMs: eventLoop.longest(work) * 1000,
        long: eventLoop.long(work),
      })),
      figures: metrics.figures,
      memory: {
        limitBytes: budget.limits.processBytes,
        tenantLimitBytes: budget.limits.tenantBytes,
        held: Object.fromEntries(BUDGET_KINDS.map((kind) => [kind, budget.held(kind)])),
      },
    };
  }

  async activityOf(url: string): Promise<Buffer> {
    const answer = await this.#peers.ask('GET', url, '/admin/processes/activity', ASKING_MS).catch((error: unknown) => {
      throw new StatefoldError('UNAVAILABLE', `the process at ${url} does not answer; it may just have ended`, {
        cause: error,
      });
    });
    if (answer.status === 200) return Buffer.from(answer.text);
    throw new StatefoldError('UNAVAILABLE', `the process at ${url} ${refusalOf(answer)}`);
  }
}
