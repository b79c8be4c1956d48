import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Catalog, ClusterEntity } from '../../src/catalog/catalog.js';
import { agreeOnCluster, OtherClusterError } from '../../src/catalog/cluster.js';
import { Sealer } from '../../src/catalog/sealing.js';
import { BUILT_IN_SCHEMA_IDS } from '../../src/log/codec/schemas.js';
import { MASTER_KEY } from '../support/peers.js';

test('a log that another version, or another registry, began is told apart', async () => {
  const sealer = new Sealer(MASTER_KEY);
  const begunWith = (schemaIds: Readonly<Record<string, number>>): Pick<Catalog, 'upsert'> => {
    const value: ClusterEntity = { tenantId: '', sealed: sealer.seal('cluster'), schemaIds };
    return { upsert: () => Promise.resolve({ id: 'cluster', version: 1, value } as never) };
  };
  const agree = (schemaIds: Readonly<Record<string, number>>): Promise<void> =>
    agreeOnCluster(begunWith(schemaIds) as Catalog, sealer, BUILT_IN_SCHEMA_IDS);
  await agree(BUILT_IN_SCHEMA_IDS);
  // An earlier version knew fewer.
  await agree({ events: 1, changes: 2, catalog: 3, order: 4 });
  const said = (text: RegExp) => (error: unknown) => error instanceof OtherClusterError && text.test(error.message);
  await assert.rejects(agree({ ...BUILT_IN_SCHEMA_IDS, events9: 99 }), said(/by a newer Statefold.*events9.*start/));
  await assert.rejects(agree({ ...BUILT_IN_SCHEMA_IDS, events: 77 }), said(/id 77 for events.*gives 1.*registry/));
});
