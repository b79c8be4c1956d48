import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { silentLogger } from '../../src/core/logger.js';

/** Tables in a local store of their own, which goes when the test ends. */
export function localTables(t: TestContext): PartitionTables {
  const path = mkdtempSync(join(tmpdir(), 'statefold-tables-'));
  const store = new LocalStore({ path, logger: silentLogger });
  const tables = new PartitionTables(store.section('t'));
  t.after(async () => {
    await tables.section.close();
    await store.close();
    rmSync(path, { recursive: true });
  });
  return tables;
}
