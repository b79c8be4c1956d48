import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Of the engine's own files, in the directory of the embedded read store. */
export const ENGINE_FOLDER = 'engine';

/**
 * The file of a table's or a database's definition that is empty: ClickHouse writes one anew when the definition changes, on a full
 * disk it writes nothing of it, and from then on it does not start. Undefined where there is none. `directory`: of the engine's data.
 */
export function lostDefinition(directory: string): string | undefined {
  for (const folder of foldersOfDefinitions(directory))
    for (const name of namesIn(folder)) {
      const file = join(folder, name);
      if (name.endsWith('.sql') && statSync(file, { throwIfNoEntry: false })?.size === 0) return file;
    }
  return undefined;
}

/** As the engine lays them out: of databases, and of the tables of each. */
function* foldersOfDefinitions(directory: string): Generator<string> {
  yield join(directory, 'metadata');
  const store = join(directory, 'store');
  for (const prefix of namesIn(store)) for (const id of namesIn(join(store, prefix))) yield join(store, prefix, id);
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
