import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { CatalogRoom } from '../../src/catalog/catalog-room.js';
import { Sealer } from '../../src/catalog/sealing.js';
import { systemClock } from '../../src/core/clock.js';
import { StatefoldError } from '../../src/core/errors.js';
import { Deadlines, readsInTime } from '../../src/http/deadlines.js';
import { Endpoints, type NewEndpoint } from '../../src/webhooks/endpoints.js';
import { ListFeed, ListTenants, MapCatalog } from '../support/notifier-world.js';

const MOST = 200_000;
const ENDPOINT = 10_000;

function world(checkUrl = () => Promise.resolve()) {
  const catalog = new MapCatalog();
  catalog.addTenant('t1');
  catalog.addProjection('t1', 'p1');
  const tenants = new ListTenants();
  const feed = new ListFeed();
  tenants.activate('t1', feed);
  const endpoints = new Endpoints({
    catalog,
    room: new CatalogRoom(catalog, MOST),
    sealer: new Sealer(randomBytes(32).toString('base64')),
    checkUrl,
    lastSequence: () => Promise.resolve(0),
    notified: tenants,
    most: 100,
    inTime: readsInTime(new Deadlines(50)),
    clock: systemClock,
  });
  return { catalog, endpoints, feed };
}

const asked = (bytes: number): NewEndpoint => ({
  url: 'https://receiver.example/',
  source: { feed: {} },
  keys: ['k'.repeat(bytes)],
  from: 'start',
});

const isFull = (error: unknown): boolean =>
  error instanceof StatefoldError && error.code === 'QUOTA_EXCEEDED' && error.details?.['quota'] === 'catalogBytes';

test('endpoints that are made at once take no more of the catalog than a tenant may have', async () => {
  const { catalog, endpoints } = world();
  const made = await Promise.allSettled(Array.from({ length: 50 }, () => endpoints.create('t1', asked(ENDPOINT))));
  const refused = made.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  assert.ok(refused.length > 0 && refused.every(isFull), String(refused[0]));
  assert.ok(catalog.bytesOf('t1') < MOST + 1.1 * ENDPOINT, `${catalog.bytesOf('t1')} bytes`);
});

test('in a full catalog an endpoint is not made larger; it is made smaller, paused, resumed and deleted', async () => {
  const { endpoints } = world();
  const { endpointId } = await endpoints.create('t1', asked(MOST));
  await assert.rejects(endpoints.create('t1', asked(1)), isFull);
  await assert.rejects(endpoints.change('t1', endpointId, { description: 'longer' }), isFull);
  assert.notEqual((await endpoints.pause('t1', endpointId)).pausedAt, undefined);
  assert.equal((await endpoints.resume('t1', endpointId)).pausedAt, undefined);
  assert.deepEqual((await endpoints.change('t1', endpointId, { keys: ['k'] })).keys, ['k']);
  assert.equal((await endpoints.change('t1', endpointId, { description: 'longer' })).description, 'longer');
  await endpoints.remove('t1', endpointId);
});

test('an endpoint that is paused already, or is not, is not written again', async () => {
  const { catalog, endpoints } = world();
  const { endpointId } = await endpoints.create('t1', asked(ENDPOINT));
  const version = (): number | undefined => catalog.get('endpoint', endpointId)?.version;
  const made = version();
  await endpoints.resume('t1', endpointId);
  assert.equal(version(), made);
  const { pausedAt } = await endpoints.pause('t1', endpointId);
  const paused = version();
  assert.notEqual(paused, made);
  assert.equal((await endpoints.pause('t1', endpointId)).pausedAt, pausedAt);
  assert.equal(version(), paused);
});

test('few URLs of a tenant are looked up at once, however many requests name one', async () => {
  const waiting: (() => void)[] = [];
  let mayPass = true;
  const { endpoints } = world(() => (mayPass ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))));
  const { endpointId } = await endpoints.create('t1', asked(1));
  mayPass = false;
  const change = (): Promise<unknown> => endpoints.change('t1', endpointId, { url: 'https://slow.example/' });
  const changes = Promise.allSettled(Array.from({ length: 150 }, change));
  const refused: StatefoldError[] = [];
  let passed = 0;
  void changes.then((told) => {
    for (const one of told) {
      if (one.status === 'rejected') refused.push(one.reason as StatefoldError);
      else passed++;
    }
  });
  while (passed === 0) {
    assert.ok(waiting.length <= 8, `${waiting.length} at once`);
    for (const go of waiting.splice(0)) go();
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual([passed, refused.length], [108, 42]);
  assert.ok(refused.every(({ code }) => code === 'RATE_LIMITED'));
  mayPass = true;
  await change();
});

test('an endpoint of a tenant that can not be caught up is refused in time, and takes no place of another', async (t) => {
  const { endpoints, feed } = world();
  const alive = setInterval(() => undefined, 1000); // deadlines keep no process alive
  t.after(() => clearInterval(alive));
  // A partition of the tenant that can't be had here, say.
  const stuck = t.mock.method(feed, 'caughtUp', () => new Promise(() => undefined));
  const late: NewEndpoint = { url: 'https://receiver.example/', source: { projectionId: 'p1' } };
  const made = await Promise.allSettled(Array.from({ length: 100 }, () => endpoints.create('t1', late)));
  for (const one of made)
    assert.ok(one.status === 'rejected' && one.reason instanceof StatefoldError && one.reason.code === 'UNAVAILABLE');
  stuck.mock.restore();
  await endpoints.create('t1', late);
});
