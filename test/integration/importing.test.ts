// An import closes its tenant, and drops what one before has stored; what the tenant has of its own it never drops.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TenantEntity } from '../../src/catalog/catalog.js';
import { beginImport, dropImport, endImport, foundEmpty } from '../../src/catalog/importing.js';
import { createTenant } from '../../src/catalog/tenants.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { openCatalog } from '../support/ground.js';
import { temporaryDirectory } from '../support/service.js';

test('an import that is repeated drops what is stored since the tenant was found empty, and nothing else', async (t) => {
  const log = new LmdbLog({ path: temporaryDirectory(t) });
  t.after(() => log.close());
  const catalog = await openCatalog(t, log, 'one');
  await createTenant(catalog, { tenantId: 'acme' });
  const removed: (string | undefined)[] = [];
  const remove = ({ incarnation }: TenantEntity): Promise<void> => Promise.resolve(void removed.push(incarnation));
  const tenant = (): TenantEntity | undefined => catalog.get('tenant', 'acme')?.value;

  // Its process ends before anybody has looked at what the tenant got until it was closed.
  const first = await beginImport(catalog, 'acme', remove);
  const second = await beginImport(catalog, 'acme', remove);
  assert.deepEqual([removed, tenant()?.incarnation], [[], undefined]);
  assert.notEqual(second, first);
  await assert.rejects(foundEmpty(catalog, 'acme', first), { code: 'UNAVAILABLE' });
  // It finds events, and gives the tenant back as it is.
  await endImport(catalog, 'acme', second);
  assert.deepEqual([removed, tenant()?.importing], [[], undefined]);

  // From here on what is there is the import's.
  const third = await beginImport(catalog, 'acme', remove);
  await foundEmpty(catalog, 'acme', third);
  await foundEmpty(catalog, 'acme', third);
  const fourth = await beginImport(catalog, 'acme', remove);
  const named = tenant()?.incarnation;
  assert.deepEqual([removed, typeof named], [[undefined], 'string']);
  await foundEmpty(catalog, 'acme', fourth);
  await dropImport(catalog, 'acme', fourth, remove);
  assert.deepEqual([removed, tenant()?.importing], [[undefined, named], undefined]);
});
