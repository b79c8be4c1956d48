// Processes that share one catalog, over a real log: what one writes the others know, and writes that race lose nothing.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { TenantEntity } from '../../src/catalog/catalog.js';
import type { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { createKey, createTenant } from '../../src/catalog/tenants.js';
import { hashApiKey } from '../../src/catalog/keys.js';
import { StatefoldError } from '../../src/core/errors.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { AppendIndefiniteError, type Log } from '../../src/log/log.js';
import { temporaryDirectory, until } from '../support/service.js';
import { openCatalog } from '../support/ground.js';
import { LOGS } from '../support/two-logs.js';

function opened(t: TestContext, log: Log, owner: string, more: { sweepAfter?: number } = {}): Promise<FencedCatalog> {
  const onStopped = (error: Error): void => assert.fail(error);
  return openCatalog(t, log, owner, { shared: true, onStopped, ...more });
}

const named = (tenantId: string, name: string): TenantEntity => ({
  tenantId,
  name,
  createdAt: '2026-01-01T00:00:00.000Z',
  partitions: 1,
  webhookSecrets: [],
});

test('a catalog that is closed while a log that is away is asked where it ends refuses what waits, and that is all', async (t) => {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const [a, b] = [await opened(t, log, 'a'), await opened(t, log, 'b')];
  await a.put('tenant', 'one', 0, named('one', 'One'));
  await b.put('tenant', 'two', 0, named('two', 'Two'));
  await until(() => a.get('tenant', 'two') !== undefined); // so that its next write begins with a claim
  let fail: (() => void) | undefined;
  t.mock.method(
    log,
    'endOffset',
    () => new Promise((_, reject) => (fail = () => reject(new Error('connection refused')))),
  );
  const refused = assert.rejects(a.put('tenant', 'three', 0, named('three', 'Three')), { code: 'UNAVAILABLE' });
  await until(() => fail !== undefined);
  await a.close();
  fail?.();
  await refused;
  // A rejection that nobody hears would end the process, and fails the test.
  await new Promise(setImmediate);
});

test('a catalog that is closed while a log that is away takes no claim does not wait until it does', async (t) => {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  const a = await opened(t, log, 'a');
  await a.put('tenant', 'one', 0, named('one', 'One'));
  let fail: (() => void) | undefined;
  const away = t.mock.method(
    log,
    'append',
    () => new Promise((_, reject) => (fail = () => reject(new AppendIndefiniteError('connection refused')))),
  );
  const refused = assert.rejects(a.put('tenant', 'two', 0, named('two', 'Two')), { code: 'UNAVAILABLE' });
  await until(() => fail !== undefined);
  const began = performance.now();
  const closed = a.close();
  // The claim behind the write, and further ones, fail as that does.
  const failing = setInterval(() => fail?.(), 1);
  await closed;
  clearInterval(failing);
  assert.ok(performance.now() - began < 10_000, `${performance.now() - began} ms`);
  await refused;
  away.mock.restore();
});

for (const { name, skip, open } of LOGS) {
  test(
    `on ${name}: what one process wrote another has as soon as it has caught up, and hears of by itself`,
    { skip },
    async (t) => {
      const client = await open(t);
      const [a, b] = [await opened(t, client(), 'a'), await opened(t, client(), 'b')];
      const heard: string[] = [];
      b.onChange(({ kind, id }) => heard.push(`${kind} ${id}`));
      await createTenant(a, { tenantId: 'acme', name: 'Acme' });
      const { apiKey } = await createKey(a, 'acme');
      await b.caughtUp();
      assert.equal(b.keyByHash(hashApiKey(apiKey))?.tenantId, 'acme');
      await b.put('tenant', 'beta', 0, named('beta', 'Beta'));
      await until(() => a.get('tenant', 'beta') !== undefined);
      assert.ok(heard.includes('tenant acme') && heard.includes('tenant beta'));
      await assert.rejects(
        a.put('tenant', 'beta', 0, named('beta', 'Another')),
        (error: unknown) => error instanceof StatefoldError && error.code === 'ALREADY_EXISTS',
      );
    },
  );

  test(`on ${name}: three processes that write at once lose no update and hold nobody up`, { skip }, async (t) => {
    const client = await open(t);
    const catalogs = [
      await opened(t, client(), 'a', { sweepAfter: 8 }),
      await opened(t, client(), 'b', { sweepAfter: 8 }),
      await opened(t, client(), 'c', { sweepAfter: 8 }),
    ];
    const [first] = catalogs;
    await first?.put('tenant', 'acme', 0, named('acme', 'Acme'));
    await Promise.all(catalogs.map((catalog) => catalog.caughtUp()));
    const started = performance.now();
    await Promise.all(
      catalogs.map(async (catalog) => {
        for (let i = 0; i < 50; i++)
          await catalog.update('tenant', 'acme', (tenant) => ({ ...tenant, partitions: tenant.partitions + 1 }));
      }),
    );
    t.diagnostic(`150 racing updates of one entity by three processes: ${Math.round(performance.now() - started)} ms`);
    for (const catalog of catalogs) {
      await catalog.caughtUp();
      assert.equal(catalog.get('tenant', 'acme')?.value.partitions, 151);
      assert.equal(catalog.get('tenant', 'acme')?.version, 151);
    }
    const cold = await opened(t, client(), 'd');
    assert.equal(cold.get('tenant', 'acme')?.value.partitions, 151);
  });

  test(
    `on ${name}: a log that is away for a while: writes are answered, and the catalog goes on when it is back`,
    { skip },
    async (t) => {
      const connected = await open(t);
      const log = connected();
      // The catalog's own timers hold no process up.
      const alive = setInterval(() => undefined, 1000);
      t.after(() => clearInterval(alive));
      let away = false;
      const reached = <T>(work: () => Promise<T>): Promise<T> =>
        away ? Promise.reject(new Error('connection refused')) : work();
      const client: Log = {
        maxAppendBytes: log.maxAppendBytes,
        ensureTopics: (specs) => log.ensureTopics(specs),
        deleteTopic: (topic) => log.deleteTopic(topic),
        append: (to, records) =>
          away ? Promise.reject(new AppendIndefiniteError('connection refused')) : log.append(to, records),
        endOffset: (of) => reached(() => log.endOffset(of)),
        startOffset: (of) => reached(() => log.startOffset(of)),
        read: (of, from, bytes, waitMs) => reached(() => log.read(of, from, bytes, waitMs)),
        readAt: (of, offsets) => reached(() => log.readAt(of, offsets)),
        doubt: (of) => log.doubt(of),
        reportPositions: () => undefined,
        close: () => Promise.resolve(),
      };
      const [a, b] = [await opened(t, client, 'a'), await opened(t, connected(), 'b')];
      await a.put('tenant', 'one', 0, named('one', 'One'));
      await b.put('tenant', 'two', 0, named('two', 'Two'));
      await until(() => a.get('tenant', 'two') !== undefined); // so that its next write begins with a claim
      away = true;
      await assert.rejects(
        a.put('tenant', 'three', 0, named('three', 'Three')),
        (error: unknown) => error instanceof StatefoldError && error.code === 'UNAVAILABLE',
      );
      await assert.rejects(
        a.caughtUp(),
        (error: unknown) => error instanceof StatefoldError && error.code === 'UNAVAILABLE',
      );
      away = false;
      await b.put('tenant', 'four', 0, named('four', 'Four'));
      await until(() => a.get('tenant', 'four') !== undefined);
      await a.put('tenant', 'three', 0, named('three', 'Three'));
      await b.caughtUp();
      assert.equal(b.get('tenant', 'three')?.value.name, 'Three');
    },
  );
}
