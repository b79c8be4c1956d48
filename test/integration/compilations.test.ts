// What became of a compilation whose outcome can't be stored.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import type { ReducerEntity } from '../../src/catalog/catalog.js';
import { silentLogger } from '../../src/core/logger.js';
import { DeploymentService } from '../../src/deployments/deployment-service.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { tally } from '../support/csharp.js';
import { openCatalog, openRunners, putTenant, testGround } from '../support/ground.js';
import { noEndpoints } from '../support/no-endpoints.js';
import { compiledOnce, temporaryDirectory, until } from '../support/service.js';

const TENANT = 't';

interface World {
  readonly log: LmdbLog;
  readonly catalog: FencedCatalog;
  readonly deployments: DeploymentService;
}

async function world(t: TestContext): Promise<World> {
  const ground = testGround({ directory: temporaryDirectory(t), env: compiledOnce });
  t.after(() => ground.close());
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const catalog = await openCatalog(t, log, 'owner');
  const deployments = new DeploymentService({
    catalog,
    codeHost: openRunners(ground),
    endpoints: noEndpoints.endpoints as never,
    projectionsOf: () => Promise.reject(new Error('nobody asks for projections here')),
    serves: () => true,
    checkWaitMs: 1_000,
    clock: { now: () => Date.now() },
    logger: silentLogger,
    retry: { first: 10, last: 20 },
  });
  t.after(() => deployments.close());
  await putTenant(catalog, TENANT);
  return { log, catalog, deployments };
}

const reducer = (catalog: FencedCatalog, reducerId: string): ReducerEntity | undefined =>
  catalog.get('reducer', reducerId)?.value;

async function failed({ catalog, deployments }: World, reducerId: string): Promise<string> {
  await until(() => reducer(catalog, reducerId)?.status === 'failed');
  // It takes no place of those that wait any more.
  await until(() => deployments.pendingUploads(TENANT) === 0);
  return reducer(catalog, reducerId)?.compilationError ?? '';
}

test('where the log refuses the compiled code for good, the upload has failed, and its owner is told', async (t) => {
  const world_ = await world(t);
  const { log, catalog, deployments } = world_;
  // It takes the sources and the catalog, and not the assembly.
  Object.defineProperty(log, 'maxAppendBytes', { value: 3_000 });
  const { reducerId } = await deployments.uploadReducer(TENANT, [{ path: 'Tally.cs', text: tally('tally') }]);
  assert.match(
    await failed(world_, reducerId),
    /^What came of the compilation could not be stored .*the log takes 3000 at once.*Upload it again/,
  );
  assert.equal(catalog.get('binding', `${TENANT}/tally`), undefined);
});

test('an upload whose sources are gone has failed, also after a restart', async (t) => {
  const world_ = await world(t);
  const { catalog, deployments } = world_;
  await catalog.put('reducer', 'r1', 0, {
    ...{ tenantId: TENANT, reducerId: 'r1', artefactId: 'r1', status: 'pending_compilation' },
    createdAt: '2026-01-01T00:00:00.000Z',
  });
  deployments.resume();
  assert.match(await failed(world_, 'r1'), /^What came of the compilation could not be stored/);
});
