import { join } from 'node:path';
import { silentLogger } from '../../src/core/logger.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';

/** Changes what a service has stored of the tenant `default`, while it is stopped. */
export async function corrupt(dataDirectory: string, change: (tables: PartitionTables) => void): Promise<void> {
  const store = new LocalStore({ path: join(dataDirectory, 'store'), logger: silentLogger });
  const section = store.section('default');
  change(new PartitionTables(section));
  await section.close();
  await store.close();
}
