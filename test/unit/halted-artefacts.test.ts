import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTenant, deleteTenant } from '../../src/catalog/tenants.js';
import { HaltedArtefacts } from '../../src/deployments/halted-artefacts.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { openCatalog } from '../support/ground.js';
import { temporaryDirectory } from '../support/service.js';

const AT = '2026-01-01T00:00:00.000Z';

test('artefacts that are halted are counted as they change, and listed once', async (t) => {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const catalog = await openCatalog(t, log, 'owner');
  for (const tenantId of ['a', 'b']) await createTenant(catalog, { tenantId });
  const put = (tenantId: string, unitId: string, version: number, faultedAt?: string): Promise<void> =>
    catalog.put('artefact', unitId, version, { tenantId, unitId, strikes: [], ...(faultedAt && { faultedAt }) });
  await put('a', 'a1', 0, AT);
  await put('a', 'a2', 0);

  let listed = 0;
  const halted = new HaltedArtefacts({
    list: (...of) => {
      listed++;
      return catalog.list(...of);
    },
    onChange: (listener) => catalog.onChange(listener),
  });
  const counts = (): unknown => [halted.total, Object.fromEntries(halted.byTenant)];
  assert.deepEqual(counts(), [1, { a: 1 }]);
  await put('a', 'a2', 1, AT);
  await put('b', 'b1', 0, AT);
  await put('b', 'b2', 0);
  assert.deepEqual(counts(), [3, { a: 2, b: 1 }]);
  // A further change of one that is halted already, a revival, a tenant that goes.
  await put('a', 'a1', 1, AT);
  await put('b', 'b1', 1);
  assert.deepEqual(counts(), [2, { a: 2 }]);
  await deleteTenant(catalog, 'a', () => Promise.resolve());
  assert.deepEqual(counts(), [0, {}]);
  assert.equal(listed, 1);
});
