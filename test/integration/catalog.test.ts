import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { BindingEntity, Catalog, CatalogChange, EntityKind, TenantEntity } from '../../src/catalog/catalog.js';
import { ARTEFACTS_TOPIC, LogArtefactStore } from '../../src/catalog/artefacts.js';
import { CATALOG_TOPIC, type FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import { UnshownKey } from '../../src/catalog/first-key.js';
import { hashApiKey, isWellFormedKey } from '../../src/catalog/keys.js';
import { createKey, createTenant, deleteTenant, ensureDefaultTenant, revokeKey } from '../../src/catalog/tenants.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import type { CatalogBody, EntityValue } from '../../src/core/records.js';
import { storedAs } from '../../src/core/slots.js';
import type { RecordCodec } from '../../src/log/codec/codec.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { codecs, openCatalog } from '../support/ground.js';
import { temporaryDirectory } from '../support/service.js';

const PARTITION = { topic: CATALOG_TOPIC, partition: 0 };
const KINDS: readonly EntityKind[] = ['tenant', 'key', 'reducer', 'binding', 'projection'];
let owners = 0;

function openLog(t: TestContext): LmdbLog {
  const path = mkdtempSync(join(tmpdir(), 'statefold-catalog-'));
  const log = new LmdbLog({ path });
  t.after(async () => {
    await log.close();
    rmSync(path, { recursive: true });
  });
  return log;
}

const opened = (
  t: TestContext,
  log: LmdbLog,
  options: Parameters<typeof openCatalog>[3] = {},
): Promise<FencedCatalog> => openCatalog(t, log, `owner-${++owners}`, options);

const everything = (catalog: FencedCatalog): object =>
  KINDS.map((kind) => catalog.list(kind, undefined).map(({ id, version, value }) => ({ id, version, value })));
const code = (expected: string) => (error: unknown) => error instanceof StatefoldError && error.code === expected;
const named = (tenantId: string, name: string): TenantEntity => ({
  tenantId,
  name,
  createdAt: '2026-01-01T00:00:00.000Z',
  partitions: 1,
  webhookSecrets: [],
});

test('of writes that replace the same version exactly one wins, and every reader finds the same', async (t) => {
  const log = openLog(t);
  const catalog = await opened(t, log);
  const changes: CatalogChange[] = [];
  catalog.onChange((change) => changes.push(change));

  const created = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => catalog.put('tenant', 'a', 0, named('a', `first ${i}`))),
  );
  assert.equal(created.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const result of created) if (result.status === 'rejected') assert.ok(code('ALREADY_EXISTS')(result.reason));
  const [winner] = created
    .map(({ status }, i) => (status === 'fulfilled' ? `first ${i}` : undefined))
    .filter((name) => name !== undefined);
  assert.equal(catalog.get('tenant', 'a')?.value.name, winner);

  // Updates race too, and none is lost.
  await Promise.all(
    Array.from({ length: 50 }, () =>
      catalog.update('tenant', 'a', (tenant) => ({ ...tenant, partitions: tenant.partitions + 1 })),
    ),
  );
  assert.deepEqual(
    { ...catalog.get('tenant', 'a'), value: catalog.get('tenant', 'a')?.value.partitions },
    { ...catalog.get('tenant', 'a'), version: 51, value: 51 },
  );
  assert.equal((await catalog.update('tenant', 'a', () => undefined)).partitions, 51);
  assert.equal(catalog.get('tenant', 'a')?.version, 51);

  await assert.rejects(catalog.delete('tenant', 'a', 50), code('ALREADY_EXISTS'));
  await assert.rejects(
    catalog.update('tenant', 'b', (tenant) => tenant),
    code('NOT_FOUND'),
  );
  await catalog.delete('tenant', 'a', 51);
  // A tenant of an id that was used goes on behind the former one: who has not seen the deletion can't make it.
  assert.equal(catalog.versionOf('tenant', 'a'), 52);
  await assert.rejects(catalog.put('tenant', 'a', 0, named('a', 'again')), code('ALREADY_EXISTS'));
  await catalog.put('tenant', 'a', 52, named('a', 'again'));
  assert.equal(catalog.get('tenant', 'a')?.version, 53);

  assert.equal(changes.length, 53);
  for (const [i, change] of changes.entries())
    assert.deepEqual(change.previous, changes[i - 1]?.value, 'each change follows the one before');
  const before = everything(catalog);
  await catalog.close();
  await assert.rejects(catalog.put('tenant', 'c', 0, named('c', 'late')), code('UNAVAILABLE'));
  assert.deepEqual(everything(await opened(t, log)), before);
});

test('what waits for the log goes into as many appends as its size asks for', async (t) => {
  const log = openLog(t);
  const catalog = await opened(t, log);
  const large = 'x'.repeat(3 * 1024 * 1024);
  const ids = Array.from({ length: 14 }, (_, i) => `t${i}`);
  await Promise.all(ids.map((id) => catalog.put('tenant', id, 0, named(id, large))));
  assert.deepEqual(
    catalog.list('tenant', undefined).map(({ id }) => id),
    ids.toSorted(),
  );
  await assert.rejects(
    catalog.put('tenant', 'larger', 0, named('larger', 'x'.repeat(log.maxAppendBytes))),
    (error) =>
      error instanceof StatefoldError &&
      error.code === 'PAYLOAD_TOO_LARGE' &&
      /tenant larger has \d+ bytes; the log takes \d+ of one change/.test(error.message),
  );
  await catalog.put('tenant', 'after', 0, named('after', 'small'));
  await catalog.close();
  assert.equal((await opened(t, log)).list('tenant', undefined).length, ids.length + 1);
});

test('what waits for the log is bounded, and taken whatever is refused', async (t) => {
  const catalog = await opened(t, openLog(t));
  const large = 'x'.repeat(8 * 1024 * 1024);
  const many = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) => catalog.put('tenant', `l${i}`, 0, named(`l${i}`, large))),
  );
  const refused = many.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
  assert.equal(refused.length, 3);
  assert.ok(refused.every(code('UNAVAILABLE')));
  assert.equal(catalog.count('tenant', undefined), 7);
  await catalog.put('tenant', 'after', 0, named('after', 'a name'));
});

test('what is removed goes, whatever is written to it meanwhile', async (t) => {
  const catalog = await opened(t, openLog(t));
  await catalog.put('tenant', 'a', 0, named('a', 'first'));
  // All were decided on the same version: one wins, the others come again.
  const racing = Array.from({ length: 5 }, () =>
    catalog.update('tenant', 'a', (value) => ({ ...value, name: 'later' })),
  );
  const removed = [catalog.remove('tenant', 'a'), catalog.remove('tenant', 'a')];
  for (const result of await Promise.allSettled(racing))
    if (result.status === 'rejected') assert.ok(code('NOT_FOUND')(result.reason));
  await Promise.all(removed);
  assert.equal(catalog.get('tenant', 'a'), undefined);
  await catalog.remove('tenant', 'a');
});

test('a catalog that another process has taken over refuses writes and says so', async (t) => {
  const log = openLog(t);
  const stopped: Error[] = [];
  const first = await opened(t, log, { onStopped: (error) => stopped.push(error) });
  await first.put('tenant', 'a', 0, named('a', 'one'));
  const second = await opened(t, log);
  await assert.rejects(first.put('tenant', 'b', 0, named('b', 'from the old owner')), code('UNAVAILABLE'));
  assert.equal(stopped.length, 1);
  await second.put('tenant', 'b', 0, named('b', 'from the new owner'));
  await assert.rejects(first.put('tenant', 'c', 0, named('c', 'later')), code('UNAVAILABLE'));
  await second.close();
  const third = await opened(t, log);
  assert.deepEqual(
    third.list('tenant', undefined).map(({ value }) => value.name),
    ['one', 'from the new owner'],
  );
});

test('superseded records are erased, and what is left folds to the same catalog, also half erased', async (t) => {
  const log = openLog(t);
  const catalog = await opened(t, log, { sweepAfter: 10 });
  for (let i = 0; i < 60; i++) {
    const id = `t${i % 3}`;
    if (i < 3) await catalog.put('tenant', id, 0, named(id, `name ${i}`));
    else await catalog.update('tenant', id, (tenant) => ({ ...tenant, name: `name ${i}` }));
    // Erases what the sweeps named so far, between the writes: later readers meet gaps everywhere.
    if (i % 7 === 0) await log.clean();
  }
  await catalog.delete('tenant', 't0', catalog.get('tenant', 't0')?.version ?? 0);
  await catalog.put('tenant', 't0', catalog.versionOf('tenant', 't0'), named('t0', 'a second life'));
  const before = everything(catalog);
  await catalog.close();
  // A claim at the end keeps the last batch, which is never rewritten, apart from what is to be erased.
  const again = await opened(t, log, { sweepAfter: 1 });
  assert.deepEqual(everything(again), before);
  await again.close();
  await log.clean();
  const records = (await log.read(PARTITION, 0, 1 << 30)).records;
  const values = records.filter(({ value, key }) => value !== null && !key.toString().startsWith('claim#'));
  assert.ok(
    values.length <= 3 + 1 + 1,
    `three entities, one deletion, at most one in the last batch: ${values.length}`,
  );
  const last = await opened(t, log);
  assert.deepEqual(everything(last), before);
  await last.update('tenant', 't1', (tenant) => ({ ...tenant, name: 'goes on' }));
  assert.equal(last.get('tenant', 't1')?.value.name, 'goes on');
});

test('entities of a kind that a newer version wrote are passed over with one line of log, and stay', async (t) => {
  const log = openLog(t);
  const { catalog: known } = codecs;
  // The newer version is this one, but that it calls bindings by other names, which this one has never heard of.
  const nameOf = ({ id }: EntityValue): string => (id < 'one/c' ? 'sharingGroup' : 'sharingRule');
  const newer: RecordCodec<CatalogBody> = {
    encode: (fence, body) => {
      const isBinding = body.kind === 'Entity' && body.value.kind === 'binding';
      return known.encode(fence, isBinding ? { ...body, value: { ...body.value, kind: nameOf(body.value) } } : body);
    },
    decode: (value) => {
      const record = known.decode(value);
      if (record?.body.kind !== 'Entity' || !record.body.value.kind.startsWith('sharing')) return record;
      return { ...record, body: { kind: 'Entity', value: { ...record.body.value, kind: 'binding' } } };
    },
  };
  const lines: unknown[] = [];
  const logger: Logger = { ...silentLogger, warn: (...line) => void lines.push(line) };
  const open = (codec: RecordCodec<CatalogBody>): Promise<FencedCatalog> =>
    opened(t, log, { codec, sweepAfter: 1, logger });
  const binding = (aggregateType: string, generation: number): BindingEntity => ({
    ...{ tenantId: 'one', aggregateType, reducerId: 'r', className: 'C', generation },
    boundAt: '2026-01-01T00:00:00.000Z',
  });

  const first = await open(newer);
  await first.put('tenant', 'one', 0, named('one', 'One'));
  for (const type of ['a', 'b', 'c', 'd']) await first.put('binding', `one/${type}`, 0, binding(type, 1));
  await first.put('binding', 'one/d', 1, binding('d', 2));
  const bindings = first.list('binding', 'one');
  assert.equal(bindings.length, 4);
  await first.close();
  assert.deepEqual(lines, []);

  const former = await open(known);
  for (let i = 0; i < 10; i++) await former.update('tenant', 'one', (tenant) => ({ ...tenant, name: `One ${i}` }));
  assert.deepEqual(former.list('binding', undefined), []);
  await former.close();
  await log.clean();
  assert.deepEqual(
    lines.map((line) => (line as [{ kind: string }, string])[0].kind),
    ['sharingGroup', 'sharingRule'],
  );

  const again = await open(newer);
  assert.deepEqual(
    again.list('binding', 'one').map(({ value }) => value),
    bindings.map(({ value }) => value),
  );
  assert.equal(again.get('tenant', 'one')?.value.name, 'One 9');
});

test('artefacts come back whole after a restart, are found by another process, and are gone when deleted', async (t) => {
  const log = openLog(t);
  const one = await LogArtefactStore.open({ log, cacheBytes: 300_000 });
  const other = await LogArtefactStore.open({ log });
  const bytes = (length: number, seed: number): Buffer =>
    Buffer.from(Uint8Array.from({ length }, (_, i) => (i * 31 + seed + (i >> 8)) & 0xff));
  const cases = [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3 * 1024 * 1024 + 17].map((length, seed) => ({
    id: `artefact-${seed}`,
    content: bytes(length, seed),
  }));
  assert.equal(await one.get('artefact-0', 'sources'), undefined);
  await Promise.all(cases.map(({ id, content }) => one.put(id, 'sources', content)));
  await Promise.all(cases.map(({ id, content }) => one.put(id, 'assembly', content.subarray(1))));
  for (const store of [one, other, await LogArtefactStore.open({ log })])
    for (const { id, content } of cases) {
      assert.ok((await store.get(id, 'sources'))?.equals(content), `sources of ${id}`);
      assert.ok((await store.get(id, 'assembly'))?.equals(content.subarray(1)), `assembly of ${id}`);
      assert.ok((await store.get(id, 'assembly'))?.equals(content.subarray(1)), `assembly of ${id}, the second time`);
    }
  // The same put again, as after an indefinite result, changes nothing.
  await one.put('artefact-5', 'sources', cases[5]?.content ?? Buffer.alloc(0));
  assert.ok((await other.get('artefact-5', 'sources'))?.equals(cases[5]?.content ?? Buffer.alloc(0)));

  await other.delete('artefact-5');
  await log.clean();
  const fresh = await LogArtefactStore.open({ log });
  for (const store of [other, fresh, one]) assert.equal(await store.get('artefact-5', 'sources'), undefined);
  assert.ok((await fresh.get('artefact-4', 'assembly'))?.equals(cases[4]?.content.subarray(1) ?? Buffer.alloc(0)));
});

test('an artefact of which the log takes no record is refused for good, and says why', async (t) => {
  const log = openLog(t);
  const store = await LogArtefactStore.open({ log });
  Object.defineProperty(log, 'maxAppendBytes', { value: 3_000 });
  await assert.rejects(store.put('large', 'sources', Buffer.alloc(4_000)), (error: StatefoldError) => {
    assert.match(error.message, /the log takes 3000 at once/);
    return error.code === 'PAYLOAD_TOO_LARGE' && !error.retryable;
  });
  await store.put('small', 'sources', Buffer.alloc(2_000));
});

test('an artefact that was not written to its end, or is damaged, is never handed out', async (t) => {
  const log = openLog(t);
  const partition = { topic: ARTEFACTS_TOPIC, partition: 0 };
  const store = await LogArtefactStore.open({ log });
  await store.put('whole', 'sources', Buffer.alloc(600_000, 7));
  const chunks = (await log.read(partition, 0, 1 << 30)).records;
  for (const { key, value } of chunks.slice(0, 2))
    await log.append(partition, [{ key: Buffer.from(key.toString().replace('whole', 'torn')), value }]);
  assert.equal(await store.get('torn', 'sources'), undefined);
  const damaged = Buffer.from(chunks[0]?.value ?? Buffer.alloc(0));
  damaged[1000] = 8;
  await log.append(partition, [{ key: Buffer.from('damaged/sources/0'), value: damaged }]);
  await assert.rejects(
    (await LogArtefactStore.open({ log })).get('damaged', 'sources'),
    /damaged\/sources\/0 at offset 5 .* is damaged/,
  );
});

test('tenants and keys: created, listed, revoked for good, and deleted with all that they have', async (t) => {
  const catalog = await opened(t, openLog(t));
  for (const tenantId of ['', '-a', 'A', 'a_b', 'a.b', 'ä', 'a'.repeat(65)])
    await assert.rejects(createTenant(catalog, { tenantId }), code('INVALID_REQUEST'), tenantId);
  for (const wrong of [
    { name: '' },
    { name: 'x'.repeat(257) },
    { name: '\ud800' },
    { partitions: 0 },
    { partitions: 1.5 },
  ])
    await assert.rejects(createTenant(catalog, wrong), code('INVALID_REQUEST'));
  assert.deepEqual(catalog.list('tenant', undefined), []);

  const acme = await createTenant(catalog, { tenantId: 'acme', name: 'Acme Inc.' });
  const other = await createTenant(catalog, {});
  assert.match(other.tenant.tenantId, /^[a-z0-9][a-z0-9-]{0,63}$/);
  assert.equal(other.tenant.name, other.tenant.tenantId);
  await assert.rejects(createTenant(catalog, { tenantId: 'acme' }), code('ALREADY_EXISTS'));
  assert.ok(isWellFormedKey(acme.apiKey));
  assert.equal(catalog.keyByHash(hashApiKey(acme.apiKey))?.tenantId, 'acme');
  assert.ok(!JSON.stringify(everything(catalog)).includes(acme.apiKey));

  const second = await createKey(catalog, 'acme');
  assert.deepEqual(
    catalog.list('key', 'acme').map(({ value }) => value.keyId),
    [acme.key.keyId, second.key.keyId],
  );
  const revoked = await revokeKey(catalog, 'acme', acme.key.keyId);
  assert.ok(revoked.revokedAt !== undefined);
  assert.deepEqual(await revokeKey(catalog, 'acme', acme.key.keyId), revoked, 'again: as it is');
  assert.equal(catalog.keyByHash(hashApiKey(acme.apiKey))?.revokedAt, revoked.revokedAt);
  for (const attempt of [
    () => revokeKey(catalog, other.tenant.tenantId, second.key.keyId),
    () => createKey(catalog, 'nobody'),
    () => deleteTenant(catalog, 'nobody', () => Promise.resolve()),
  ])
    await assert.rejects(attempt, code('NOT_FOUND'));

  await catalog.artefacts.put('r1', 'sources', Buffer.from('class A {}'));
  await catalog.put('reducer', 'r1', 0, {
    reducerId: 'r1',
    tenantId: 'acme',
    createdAt: '2026-01-01T00:00:00.000Z',
    artefactId: 'r1',
    status: 'pending_compilation',
  });
  await catalog.put('binding', 'acme/order', 0, {
    tenantId: 'acme',
    aggregateType: 'order',
    reducerId: 'r1',
    className: 'A',
    boundAt: '2026-01-01T00:00:00.000Z',
    generation: 1,
  });
  // The first attempt fails where data is removed: the keys are gone already, the tenant is not, and a repeat ends it.
  await assert.rejects(
    deleteTenant(catalog, 'acme', () => Promise.reject(new Error('the disk is full'))),
    /disk is full/,
  );
  assert.equal(catalog.keyByHash(hashApiKey(second.apiKey)), undefined);
  assert.ok(catalog.get('tenant', 'acme') !== undefined);
  const removed: string[] = [];
  await deleteTenant(catalog, 'acme', ({ tenantId }) => Promise.resolve(void removed.push(tenantId)));
  assert.deepEqual(removed, ['acme']);
  for (const kind of KINDS) assert.deepEqual(catalog.list(kind, 'acme'), [], kind);
  assert.equal(await catalog.artefacts.get('r1', 'sources'), undefined);
  assert.equal(catalog.list('key', other.tenant.tenantId).length, 1);
});

test('what was written to a tenant that was being deleted is no part of the next one of the id', async (t) => {
  const log = openLog(t);
  const catalog = await opened(t, log);
  const { apiKey, key } = await createTenant(catalog, { tenantId: 'acme' });
  await deleteTenant(catalog, 'acme', () => Promise.resolve());
  // Requests that had found it there, of a process that was killed before it found it gone.
  const reducer = {
    reducerId: 'r1',
    artefactId: 'r1',
    createdAt: key.createdAt,
    status: 'pending_compilation',
  } as const;
  await catalog.artefacts.put('r1', 'sources', Buffer.from('class A {}'));
  await catalog.put('reducer', 'r1', 0, { tenantId: 'acme', ...reducer });
  await catalog.put('key', key.keyId, 0, key);
  const schema = { schemaVersion: 1, schema: 'false', changedAt: key.createdAt };
  await catalog.put('eventType', 'acme/Paid', 0, { tenantId: 'acme', eventType: 'Paid', ...schema });
  await catalog.close();

  const again = await opened(t, log);
  assert.equal(again.keyByHash(hashApiKey(apiKey))?.tenantId, 'acme');
  const { key: fresh } = await createTenant(again, { tenantId: 'acme' });
  assert.deepEqual(
    again.list('key', 'acme').map(({ id }) => id),
    [fresh.keyId],
  );
  assert.equal(again.keyByHash(hashApiKey(apiKey)), undefined);
  for (const kind of ['reducer', 'eventType'] as const) assert.deepEqual(again.list(kind, 'acme'), [], kind);
  assert.equal(await again.artefacts.get('r1', 'sources'), undefined);
});

test('a tenant that is made again is another one, whoever makes it, and stays so over restarts', async (t) => {
  const log = openLog(t);
  const [one, two] = [await opened(t, log, { shared: true }), await opened(t, log, { shared: true })];
  const names = new Set<string>();
  const made = async (catalog: Catalog): Promise<string> => {
    const { tenant } = await createTenant(catalog, { tenantId: 'acme' });
    const name = storedAs(tenant);
    assert.ok(!names.has(name), `${name} was used`);
    names.add(name);
    return name;
  };
  assert.equal(await made(one), 'acme', 'the first one is stored under its id alone');
  for (let round = 0; round < 3; round++) {
    await two.caughtUp();
    await deleteTenant(two, 'acme', () => Promise.resolve());
    // Neither waits for what the other wrote.
    assert.match(await made(round % 2 === 0 ? one : two), /^acme_[0-9a-f]{8}$/);
    await two.caughtUp();
  }
  // Of several at once one wins, and the others say that it is there.
  await deleteTenant(two, 'acme', () => Promise.resolve());
  const racing = await Promise.allSettled([made(one), made(two), made(one), made(two)]);
  assert.equal(racing.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const result of racing)
    if (result.status === 'rejected') {
      assert.ok(code('ALREADY_EXISTS')(result.reason));
      assert.match((result.reason as Error).message, /tenant acme already exists/);
    }
  await one.caughtUp();
  const last = one.get('tenant', 'acme')?.value;
  assert.ok(last !== undefined && names.has(storedAs(last)));
  await deleteTenant(one, 'acme', () => Promise.resolve());
  for (const catalog of [one, two]) await catalog.close();
  const later = await opened(t, log);
  assert.match(await made(later), /^acme_[0-9a-f]{8}$/, 'a fresh process knows of the deletion');
});

test('the first start makes the default tenant and shows its key once; a key of the settings is added beside it', async (t) => {
  const log = openLog(t);
  const catalog = await opened(t, log);
  const unshown = new UnshownKey(join(temporaryDirectory(t), 'first-key'));
  const { apiKey } = await ensureDefaultTenant(catalog, unshown);
  assert.ok(apiKey !== undefined && isWellFormedKey(apiKey));
  await catalog.close();

  const again = await opened(t, log);
  // Nobody saw it: the start ended first.
  assert.deepEqual(await ensureDefaultTenant(again, unshown), { exists: true, apiKey, fixedKey: undefined });
  assert.equal(again.list('key', 'default').length, 1);
  unshown.forget();
  const fixed = 'a key that a script chose';
  assert.deepEqual(await ensureDefaultTenant(again, unshown), { exists: true, apiKey: undefined, fixedKey: undefined });
  for (let i = 0; i < 2; i++)
    assert.deepEqual(await ensureDefaultTenant(again, unshown, fixed), {
      exists: true,
      apiKey: undefined,
      fixedKey: 'in force',
    });
  // The key that was shown, exported in the terminal of the next start.
  assert.deepEqual(await ensureDefaultTenant(again, unshown, apiKey), {
    exists: true,
    apiKey: undefined,
    fixedKey: 'in force',
  });
  assert.equal(again.list('key', 'default').length, 2);
  for (const key of [fixed, apiKey]) assert.equal(again.keyByHash(hashApiKey(key))?.tenantId, 'default');

  const keyId = again.keyByHash(hashApiKey(fixed))?.keyId ?? '';
  await revokeKey(again, 'default', keyId);
  assert.equal((await ensureDefaultTenant(again, unshown, fixed)).fixedKey, 'revoked');
  assert.ok(again.keyByHash(hashApiKey(fixed))?.revokedAt !== undefined, 'a revocation holds over restarts');

  const { apiKey: foreign } = await createTenant(again, { tenantId: 'acme' });
  assert.deepEqual(await ensureDefaultTenant(again, unshown, foreign), {
    exists: true,
    apiKey: undefined,
    fixedKey: 'of another tenant',
  });
  assert.equal(again.keyByHash(hashApiKey(foreign))?.tenantId, 'acme');
  await deleteTenant(again, 'default', () => Promise.resolve());
  for (const key of [undefined, foreign]) assert.equal((await ensureDefaultTenant(again, unshown, key)).exists, false);
  assert.equal(again.get('tenant', 'default'), undefined, 'a deleted default tenant stays deleted');
});

test('a key that was kept to be shown is told only while it is in force, and none is lost to a cut-off write', async (t) => {
  const catalog = await opened(t, openLog(t));
  const path = join(temporaryDirectory(t), 'first-key');
  const unshown = new UnshownKey(path);
  // A crash between the file and the record, or in the middle of the file: the key is nobody's, and another one is made.
  unshown.keep('sf_abc');
  const { apiKey = '' } = await ensureDefaultTenant(catalog, unshown);
  assert.equal(catalog.keyByHash(hashApiKey(apiKey))?.tenantId, 'default');
  assert.equal(unshown.read(), apiKey);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  await revokeKey(catalog, 'default', catalog.keyByHash(hashApiKey(apiKey))?.keyId ?? '');
  assert.equal((await ensureDefaultTenant(catalog, unshown)).apiKey, undefined);
  assert.equal(unshown.read(), undefined);
});
