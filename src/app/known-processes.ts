import { versionOf } from '../config/project-root.js';
import { StatefoldError } from '../core/errors.js';
import { BUDGET_KINDS } from '../core/budget.js';
import { eventLoop, WORK_KINDS } from '../core/event-loop.js';
import { refusalOf, type PeerClient } from '../http/gateway/peer-client.js';
import type { KnownProcess, Processes } from '../http/processes.js';
import type { Ownership } from '../placement/ownership.js';
import type { HaltedArtefacts } from '../deployments/halted-artefacts.js';
import type { Catalog } from '../catalog/catalog.js';
import type { RebuildStatus } from '../read-store/rebuild.js';
import type { FaultCounts } from '../tenancy/tenant-registry.js';
import type { Ground } from './ground.js';

const ASKING_MS = 10_000;
/** Tenants whose faults are told each: those that have most. */
const MOST_FAULTED = 50;

export interface KnownProcessesParts {
  readonly ownership: Pick<Ownership, 'shares'>;
  readonly peers: Pick<PeerClient, 'ask'>;
  readonly tenants: { faultedByTenant(): ReadonlyMap<string, FaultCounts> };
  readonly catalog: Pick<Catalog, 'get'>;
  readonly haltedArtefacts: Pick<HaltedArtefacts, 'byTenant'>;
  /** Of the read store, under way or through. */
  readonly rebuild: () => RebuildStatus | undefined;
}

/** This process and those that share the slots with it, for the one who runs them. */
export class KnownProcesses implements Processes {
  readonly #ground: Ground;
  readonly #parts: KnownProcessesParts;
  readonly #startedAt: string;

  constructor(ground: Ground, parts: KnownProcessesParts) {
    this.#ground = ground;
    this.#parts = parts;
    this.#startedAt = new Date(ground.clock.now() - Math.round(process.uptime() * 1000)).toISOString();
  }

  list(): readonly KnownProcess[] {
    const { peerUrl } = this.#ground;
    const shares = this.#parts.ownership.shares().map(({ process: at, ...slots }) => ({
      ...(at === 'self' ? { url: peerUrl, self: true as const } : { url: at.url }),
      ...slots,
    }));
    // One that only takes requests has no slots.
    return shares.some(({ url }) => url === peerUrl)
      ? shares
      : [{ url: peerUrl, self: true, owned: 0, standbys: 0, notified: 0 }, ...shares];
  }

  activity(): object {
    const faulted = this.#faulted();
    const readStoreRebuild = this.#parts.rebuild();
    const { root, peerUrl, settings, metrics, budget, lastHour } = this.#ground;
    return {
      url: peerUrl,
      version: versionOf(root),
      startedAt: this.#startedAt,
      roles: settings.roles,
      samples: lastHour.samples,
      moves: lastHour.moves,
      faulted,
      tenantNames: this.#namesOf([
        ...lastHour.samples.flatMap(({ tenants }) => tenants),
        ...lastHour.moves,
        ...faulted,
      ]),
      holds: WORK_KINDS.map((work) => ({
        work,
        longestMs: eventLoop.longest(work) * 1000,
        long: eventLoop.long(work),
      })),
      figures: metrics.figures,
      ...(readStoreRebuild && { readStoreRebuild }),
      memory: {
        limitBytes: budget.limits.processBytes,
        tenantLimitBytes: budget.limits.tenantBytes,
        held: Object.fromEntries(BUDGET_KINDS.map((kind) => [kind, budget.held(kind)])),
      },
    };
  }

  /** Of what this process owns, and of all code: who has most comes first. */
  #faulted(): readonly (FaultCounts & { readonly tenantId: string; readonly artefacts: number })[] {
    const { tenants, haltedArtefacts } = this.#parts;
    const artefacts = haltedArtefacts.byTenant;
    const counts = tenants.faultedByTenant();
    return [...new Set([...counts.keys(), ...artefacts.keys()])]
      .map((tenantId) => ({
        ...{ tenantId, aggregates: 0, keys: 0, ...counts.get(tenantId) },
        artefacts: artefacts.get(tenantId) ?? 0,
      }))
      .sort((a, b) => b.aggregates + b.keys + b.artefacts - (a.aggregates + a.keys + a.artefacts))
      .slice(0, MOST_FAULTED);
  }

  /** Of those that are there still. */
  #namesOf(named: readonly { readonly tenantId: string }[]): Readonly<Record<string, string>> {
    const names: [string, string][] = [];
    for (const id of new Set(named.map(({ tenantId }) => tenantId))) {
      const name = this.#parts.catalog.get('tenant', id)?.value.name;
      if (name !== undefined) names.push([id, name]);
    }
    return Object.fromEntries(names);
  }

  async activityOf(url: string): Promise<Buffer> {
    const answer = await this.#parts.peers
      .ask('GET', url, '/admin/processes/activity', ASKING_MS)
      .catch((error: unknown) => {
        throw new StatefoldError('UNAVAILABLE', `the process at ${url} does not answer; it may just have ended`, {
          cause: error,
        });
      });
    if (answer.status === 200) return Buffer.from(answer.text);
    throw new StatefoldError('UNAVAILABLE', `the process at ${url} ${refusalOf(answer)}`);
  }
}
