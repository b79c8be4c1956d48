// Strikes against uploaded code, as several processes count them in one catalog.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { createTenant, deleteTenant } from '../../src/catalog/tenants.js';
import { silentLogger } from '../../src/core/logger.js';
import { ArtefactHealth, artefactFault, isHalted, revive } from '../../src/deployments/artefact-health.js';
import { tenantDefinitions } from '../../src/deployments/tenant-definitions.js';
import type { Log } from '../../src/log/log.js';
import { openCatalog } from '../support/ground.js';
import { LOGS } from '../support/two-logs.js';

const AT = '2026-01-01T00:00:00.000Z';

function opened(t: TestContext, log: Log, owner: string): Promise<FencedCatalog> {
  const onStopped = (error: Error): void => assert.fail(error);
  return openCatalog(t, log, owner, { shared: true, onStopped });
}

const strike = (
  unitId: string,
  message = 'overran',
  tenantId = 'acme',
): { tenantId: string; unitId: string; className: string; message: string } => ({
  tenantId,
  unitId,
  className: 'C',
  message,
});

for (const { name, skip, open } of LOGS) {
  test(
    `on ${name}: processes count strikes together, within the window, and a revival begins anew`,
    { skip },
    async (t) => {
      const client = await open(t);
      const catalogs = [await opened(t, client(), 'a'), await opened(t, client(), 'b')] as const;
      const [a, b] = catalogs;
      await createTenant(a, { tenantId: 'acme', name: 'Acme' });
      await createTenant(a, { tenantId: 'other', name: 'Other' });
      await a.put('reducer', 'r1', 0, {
        reducerId: 'r1',
        tenantId: 'acme',
        artefactId: 'art1',
        createdAt: AT,
        status: 'compiled',
      });
      await a.put('binding', 'acme/order', 0, {
        tenantId: 'acme',
        aggregateType: 'order',
        reducerId: 'r1',
        className: 'C',
        boundAt: AT,
        generation: 1,
      });
      await a.put('projection', 'p1', 0, {
        projectionId: 'p1',
        tenantId: 'acme',
        artefactId: 'art2',
        createdAt: AT,
        status: 'compiled',
        revision: 3,
        sse: false,
      });
      await b.caughtUp();
      let now = Date.parse(AT);
      const health = catalogs.map(
        (catalog) =>
          new ArtefactHealth({
            catalog,
            strikes: 4,
            windowMs: 60_000,
            clock: { now: () => now },
            logger: silentLogger,
          }),
      );
      const idle = async (): Promise<void> => {
        for (const one of health) await one.idle();
        for (const catalog of catalogs) await catalog.caughtUp();
      };

      // Those of long ago count no more; nor does what belongs to no code of the tenant's.
      for (let i = 0; i < 3; i++) health[0]?.struck(strike('art1', 'long ago'));
      for (const foreign of [
        strike('art9'),
        strike('art1', 'x', 'other'),
        strike('p9@1'),
        strike('p1@3', 'x', 'other'),
      ])
        health[1]?.struck(foreign);
      await idle();
      now += 61_000;
      for (let i = 0; i < 3; i++) health[i % 2]?.struck(strike('art1', `recent ${i}`));
      await idle();
      assert.deepEqual(
        catalogs.map((catalog) => isHalted(catalog, 'art1')),
        [false, false],
      );
      assert.deepEqual(
        a.list('artefact', undefined).map(({ id }) => id),
        ['art1'],
      );

      // Two at once from two processes: none is lost, and one of them is the last.
      for (const one of health) one.struck(strike('art1', 'the last'));
      await idle();
      const fault = artefactFault(b, 'art1');
      assert.deepEqual([fault?.strikes, fault?.className, fault?.message], [4, 'C', 'the last']);
      assert.deepEqual(artefactFault(a, 'art1'), fault);
      assert.deepEqual(
        catalogs.map((catalog) => tenantDefinitions(catalog, 'acme').halted?.('art1')),
        [true, true],
      );

      await revive(b, 'art1');
      await a.caughtUp();
      assert.deepEqual([isHalted(a, 'art1'), artefactFault(a, 'art1')], [false, undefined]);
      const revivals: unknown[] = [];
      await tenantDefinitions(a, 'acme').bindAll((reducer) => revivals.push(reducer.revivals));
      assert.deepEqual(revivals, [1]);
      for (let i = 0; i < 3; i++) health[0]?.struck(strike('art1'));
      await idle();
      assert.equal(isHalted(b, 'art1'), false);

      // Of a projection the revision is struck, also by what is run for a release of one of its keys.
      for (const unitId of ['p1@3', 'p1@3@release', 'p1@3', 'p1@2', 'p1@3@release']) health[1]?.struck(strike(unitId));
      await idle();
      assert.deepEqual([isHalted(a, 'p1@3'), isHalted(a, 'p1@2')], [true, false]);

      await deleteTenant(a, 'acme', () => Promise.resolve());
      assert.deepEqual(a.list('artefact', undefined), []);
    },
  );

  test(`on ${name}: with no limit nothing is counted`, { skip }, async (t) => {
    const client = await open(t);
    const catalog = await opened(t, client(), 'a');
    await createTenant(catalog, { tenantId: 'acme', name: 'Acme' });
    await catalog.put('reducer', 'r1', 0, {
      reducerId: 'r1',
      tenantId: 'acme',
      artefactId: 'art1',
      createdAt: AT,
      status: 'compiled',
    });
    const health = new ArtefactHealth({
      catalog,
      strikes: 0,
      windowMs: 60_000,
      clock: { now: () => Date.parse(AT) },
      logger: silentLogger,
    });
    for (let i = 0; i < 50; i++) health.struck(strike('art1'));
    await health.idle();
    assert.equal(catalog.get('artefact', 'art1'), undefined);
  });
}
