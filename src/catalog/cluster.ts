import { InvariantError } from '../core/errors.js';
import { StartupError } from '../core/startup-error.js';
import type { Catalog } from './catalog.js';
import type { Sealer } from './sealing.js';

const ID = 'cluster';

/** This process can't work on that log: what it was begun with differs. The message says what to set. */
export class OtherClusterError extends StartupError {
  override readonly name = 'OtherClusterError';
}

/**
 * Compares what this process was started with to what the log was begun with; the first one writes it down.
 * @throws OtherClusterError
 */
export async function agreeOnCluster(
  catalog: Catalog,
  sealer: Sealer,
  schemaIds: Readonly<Record<string, number>>,
): Promise<void> {
  const begun = await catalog.upsert('cluster', ID, (had) =>
    had === undefined ? { tenantId: '', sealed: sealer.seal(ID), schemaIds } : undefined,
  );
  if (begun === undefined) throw new InvariantError('the catalog does not have what was written to it');
  if (!sealer.opens(begun.value.sealed))
    throw new OtherClusterError(
      'The log was begun with another master key: set STATEFOLD_MASTER_KEY to that of the other processes (theirs is in the file master-key of their data directory when it was not set).',
    );
  for (const [name, id] of Object.entries(begun.value.schemaIds)) {
    if (schemaIds[name] === undefined)
      throw new OtherClusterError(
        `The log was begun by a newer Statefold, which writes records of the schema ${name} that this version does not know: start the newer version.`,
      );
    if (schemaIds[name] !== id)
      throw new OtherClusterError(
        `The records of the log are written with schema id ${id} for ${name}, the schema registry gives ${schemaIds[name]}: use the registry of before, or restore its schemas (SCHEMA_REGISTRY_URL).`,
      );
  }
}
