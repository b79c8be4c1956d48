// What is done for each of a tenant's bindings is done in pieces.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Bindings } from '../../src/aggregates/bindings.js';
import { openTasks } from '../../src/app/open-tasks.js';
import type { Catalog } from '../../src/catalog/catalog.js';
import { deleteTenant, createTenant } from '../../src/catalog/tenants.js';
import type { CodeHost } from '../../src/code-host/code-host.js';
import { systemClock } from '../../src/core/clock.js';
import type { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { nextTurn } from '../../src/core/slices.js';
import { DeploymentService } from '../../src/deployments/deployment-service.js';
import { knownStates } from '../../src/deployments/described-states.js';
import { followCatalog, tenantDefinitions } from '../../src/deployments/tenant-definitions.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { SoleOwner } from '../../src/placement/sole-owner.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import { codecs, openCatalog, openRunners, openStore, testGround } from '../support/ground.js';
import { temporaryDirectory } from '../support/service.js';

const TENANT = 't';
const REDUCER = 'r1';
const TYPES = 15_000;
const AT = '2026-01-01T00:00:00.000Z';

const bindType = (catalog: Catalog, aggregateType: string, generation: number): Promise<void> =>
  catalog.put('binding', `${TENANT}/${aggregateType}`, generation - 1, {
    ...{ tenantId: TENANT, aggregateType, className: 'C', reducerId: REDUCER },
    ...{ generation, boundAt: AT },
  });

/** The tenant, with a reducer that is bound to all types. */
async function manyBindings(catalog: Catalog): Promise<void> {
  await createTenant(catalog, { tenantId: TENANT });
  const reducer = { tenantId: TENANT, reducerId: REDUCER, artefactId: REDUCER, status: 'compiled' as const };
  await catalog.put('reducer', REDUCER, 0, { ...reducer, createdAt: AT });
  await Promise.all(Array.from({ length: TYPES }, (_, i) => bindType(catalog, `type-${i}`, 1)));
}

test('a tenant with very many bindings', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'statefold-bindings-'));
  t.after(() => rmSync(path, { recursive: true }));
  const log = new LmdbLog({ path });
  t.after(() => log.close());
  const catalog = await openCatalog(t, log, 'owner');
  await manyBindings(catalog);

  await t.test('is bound again over many turns when its reducer is revived', async () => {
    const bound = new Set<string>();
    followCatalog(catalog, {
      active: () => undefined,
      open: () => Promise.reject(new Error('nothing is opened here')),
      bind: (_tenantId, { aggregateType }) => void bound.add(aggregateType),
    });
    await catalog.put('artefact', REDUCER, 0, { tenantId: TENANT, unitId: REDUCER, strikes: [], revivals: 1 });
    const atOnce = bound.size;
    for (let turns = 0; bound.size < TYPES; turns++) {
      assert.ok(turns < TYPES, `${bound.size} are bound`);
      await nextTurn();
    }
    assert.ok(atOnce < TYPES, `${atOnce} were bound in one turn`);
  });

  await t.test('lists its states in their order, each once', async () => {
    let turns = 0;
    const count = setInterval(() => turns++, 0);
    const states = await knownStates(catalog, TENANT, { life: () => assert.fail('it has no projection') });
    clearInterval(count);
    const types = states.map(({ aggregateType = '' }) => aggregateType);
    assert.equal(new Set(types).size, TYPES);
    assert.deepEqual(types, types.toSorted());
    assert.ok(turns > 0, 'others had their turn');
  });

  await t.test('is told some of the types that keep its reducer from being deleted', async () => {
    const endpoints = {} as ConstructorParameters<typeof DeploymentService>[0]['endpoints'];
    const deployments = new DeploymentService({
      ...{ catalog, endpoints, clock: systemClock, logger: silentLogger, checkWaitMs: 1 },
      codeHost: { compile: () => assert.fail('nothing is compiled here') } as unknown as CodeHost,
      projectionsOf: () => assert.fail('it has no projection'),
      serves: () => true,
    });
    t.after(() => deployments.close());
    let turns = 0;
    const count = setInterval(() => turns++, 0);
    const refused = deployments.deleteReducer(TENANT, REDUCER);
    await assert.rejects(refused, (error: StatefoldError) => {
      assert.equal(error.code, 'REDUCER_BOUND');
      assert.ok(error.message.length < 1_000, `${error.message.length} characters`);
      assert.match(error.message, new RegExp(`and ${TYPES - 20} more`));
      return true;
    });
    clearInterval(count);
    assert.ok(turns > 0, 'others had their turn');
  });

  await t.test('is deleted while others write between', async () => {
    const between = new Promise<number>((resolve, reject) => {
      let begun = false;
      catalog.onChange(({ kind }) => {
        if (begun || kind !== 'binding') return;
        begun = true;
        createTenant(catalog, { tenantId: 'other' }).then(() => resolve(catalog.count('binding', TENANT)), reject);
      });
    });
    await deleteTenant(catalog, TENANT, () => Promise.resolve());
    assert.ok((await between) > 0, 'the other tenant waited for all');
    assert.equal(catalog.count('binding', TENANT), 0);
  });
});

test('a tenant with many bindings is opened over many turns, and misses none that is changed meanwhile', async (t) => {
  const ground = testGround({ directory: temporaryDirectory(t) });
  t.after(() => ground.close());
  const log = new LmdbLog({ path: join(ground.settings.dataDirectory, 'log') });
  ground.shutdown.add('log', () => log.close());
  const catalog = await openCatalog(t, log, ground.owner);
  await manyBindings(catalog);
  const storage = { log, codecs, store: openStore(ground), ownership: new SoleOwner() };
  const tenants = openTasks(ground, storage, openRunners(ground), {
    definitionsOf: () => definitions,
    partitionsOf: () => 1,
  });
  followCatalog(catalog, tenants);
  const known = tenantDefinitions(catalog, TENANT);
  let bound = 0;
  let afterOneTurn = 0;
  const definitions: TenantDefinitions = {
    ...known,
    bindAll: async (bind) => {
      let changes: Promise<unknown> | undefined;
      await known.bindAll((reducer) => {
        bind(reducer);
        bound++;
        if (changes !== undefined) return;
        setImmediate(() => (afterOneTurn = bound));
        // One that had its turn already, and one that is not among those of the beginning.
        changes = Promise.all([bindType(catalog, reducer.aggregateType, 2), bindType(catalog, 'new', 1)]);
      });
      await changes;
    },
  };
  const { first } = await tenants.open(TENANT);
  assert.equal(bound, TYPES);
  assert.ok(afterOneTurn > 0 && afterOneTurn < TYPES, `${afterOneTurn} were bound in one turn`);
  assert.deepEqual(
    ['type-0', 'type-1', 'new'].map((type) => first.bound(type)?.generation),
    [2, 1, 1],
  );
});

test('the revision of the bindings grows with each', () => {
  const bindings = new Bindings();
  const bind = (aggregateType: string, generation: number): number => {
    bindings.bind({ aggregateType, generation, className: 'C', artefactId: REDUCER });
    return bindings.revision;
  };
  assert.deepEqual([bind('a', 1), bind('b', 1), bind('a', 2), bind('a', 2), bind('b', 5)], [1, 2, 3, 3, 7]);
});
