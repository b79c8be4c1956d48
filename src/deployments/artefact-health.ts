import type { Catalog, ProjectionEntity } from '../catalog/catalog.js';
import { OneByOne } from '../core/one-by-one.js';
import { pause } from '../core/pause.js';
import type { Clock } from '../core/clock.js';
import { isoTimestamp } from '../core/event.js';
import { revisionUnit } from '../core/ids.js';
import type { Logger } from '../core/logger.js';
import type { ProjectionLife } from '../projections/projections.js';

export interface ArtefactHealthOptions {
  readonly catalog: Catalog;
  /** So many strikes within the window halt an artefact; 0: none ever does. */
  readonly strikes: number;
  readonly windowMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ObservedStrike {
  readonly tenantId: string;
  /** What is struck: a reducer's artefact, or the revision of a projection, `<projectionId>@<revision>`. */
  readonly unitId: string;
  readonly className: string;
  readonly message: string;
}

const RETRY_MS = 1000;
const ATTEMPTS = 10;
const MAX_MESSAGE = 1000;

/**
 * Counts the strikes of uploaded code where all processes see them: in the catalog. What has too many is halted: no process runs
 * it from then on, until it is revived. The count is a record of its own, so that it outlives the process that the code ended.
 */
export class ArtefactHealth {
  readonly #options: ArtefactHealthOptions;
  /** One write at a time: strikes of one artefact come in rows. */
  readonly #writes = new OneByOne();

  constructor(options: ArtefactHealthOptions) {
    this.#options = options;
  }

  /** Notes a strike, in the background. */
  struck(strike: ObservedStrike): void {
    // What is run apart for a release is of its revision.
    const unitId = strike.unitId.split('@', 2).join('@');
    if (this.#options.strikes > 0) void this.#writes.run(() => this.#note({ ...strike, unitId }));
  }

  /** Halts an artefact whatever its count; resolves when that is in the catalog. @throws StatefoldError */
  async halt(strike: ObservedStrike): Promise<void> {
    const unitId = strike.unitId.split('@', 2).join('@');
    await this.#writes.run(() => this.#note({ ...strike, unitId }, true));
  }

  /** Resolves when all strikes that were noted are in the catalog, or could not be written. */
  async idle(): Promise<void> {
    await this.#writes.ended();
  }

  async #note(strike: ObservedStrike, fatal = false): Promise<void> {
    const { logger } = this.#options;
    const { tenantId, unitId } = strike;
    for (let attempt = 1; ; attempt++) {
      try {
        if (await this.#write(strike, fatal))
          logger.error(
            { tenantId, unitId, className: strike.className },
            'an artefact is halted: its code is not run any more until a new upload or a revival',
          );
        return;
      } catch (error) {
        if (attempt >= ATTEMPTS && fatal) throw error;
        if (attempt >= ATTEMPTS) return logger.warn({ err: error, tenantId, unitId }, 'a strike could not be noted');
        await pause(RETRY_MS);
      }
    }
  }

  /** True: it is halted by this one. */
  async #write({ tenantId, unitId, className, message }: ObservedStrike, fatal: boolean): Promise<boolean> {
    const { catalog, strikes: most, windowMs, clock } = this.#options;
    let halted = false;
    // Where another process struck it too, its count is the one to add to.
    await catalog.upsert('artefact', unitId, (had) => {
      halted = false;
      // Code that runs for a dry run, say, belongs to nobody.
      if (had?.faultedAt !== undefined || !owned(catalog, tenantId, unitId)) return undefined;
      const now = clock.now();
      const recent = (had?.strikes ?? []).filter(({ at }) => Date.parse(at) > now - windowMs);
      const strikes = [...recent, { at: isoTimestamp(now), className, message: message.slice(0, MAX_MESSAGE) }];
      halted = fatal || strikes.length >= most;
      return { ...had, tenantId, unitId, strikes, ...(halted ? { faultedAt: isoTimestamp(now) } : {}) };
    });
    return halted;
  }
}

function owned(catalog: Catalog, tenantId: string, unitId: string): boolean {
  const at = unitId.indexOf('@');
  if (at >= 0) return catalog.get('projection', unitId.slice(0, at))?.value.tenantId === tenantId;
  return catalog.list('reducer', tenantId).some(({ value }) => value.artefactId === unitId);
}

/** Its code may not be run. */
export const isHalted = (catalog: Catalog, unitId: string): boolean =>
  catalog.get('artefact', unitId)?.value.faultedAt !== undefined;

export interface ArtefactFaultRecord {
  /** Of a projection. */
  readonly revision?: number;
  /** ISO 8601. */
  readonly at: string;
  readonly strikes: number;
  /** Of the last strike. */
  readonly className: string | undefined;
  readonly message: string | undefined;
}

/** What is shown of an artefact that is halted; the interface calls it `faulted`. */
export function artefactFault(catalog: Catalog, unitId: string): ArtefactFaultRecord | undefined {
  const value = catalog.get('artefact', unitId)?.value;
  if (value?.faultedAt === undefined) return undefined;
  const last = value.strikes.at(-1);
  return { at: value.faultedAt, strikes: value.strikes.length, className: last?.className, message: last?.message };
}

/** Its code is run again, where it was halted; what was held against it is forgotten. */
export async function revive(catalog: Catalog, unitId: string): Promise<void> {
  if (catalog.get('artefact', unitId) === undefined) return;
  await catalog.update('artefact', unitId, ({ faultedAt, strikes, ...value }) =>
    strikes.length === 0
      ? undefined
      : { ...value, strikes: [], ...(faultedAt === undefined ? {} : { revivals: (value.revivals ?? 0) + 1 }) },
  );
}

/** Of the live revision, else of the one that is to follow it. `life`: where it is known which is which. */
export function projectionFault(
  catalog: Catalog,
  { projectionId, revision }: ProjectionEntity,
  life?: ProjectionLife,
): ArtefactFaultRecord | undefined {
  for (const number of new Set([life?.live?.revision, life?.building?.revision, revision])) {
    const fault = number === undefined ? undefined : artefactFault(catalog, revisionUnit(projectionId, number));
    if (number !== undefined && fault !== undefined) return { revision: number, ...fault };
  }
  return undefined;
}
