import assert from 'node:assert/strict';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { CatalogRoom } from '../../src/catalog/catalog-room.js';
import type { AuditBegun, AuditEnded, AuditRecording, AuditTrail } from '../../src/audit/audit-entry.js';
import type { ProjectionEntity } from '../../src/catalog/catalog.js';
import { mintWebhookSecret, Sealer } from '../../src/catalog/sealing.js';
import { rotateSecrets } from '../../src/catalog/webhook-secrets.js';
import { MemoryBudget } from '../../src/core/budget.js';
import { systemClock } from '../../src/core/clock.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { followDeletions } from '../../src/app/follow-deletions.js';
import { FeedHub } from '../../src/feed/hub.js';
import { Deadlines, readsInTime } from '../../src/http/deadlines.js';
import { Endpoints } from '../../src/webhooks/endpoints.js';
import { WebhookDeliverer, type WebhookDelivererOptions } from '../../src/webhooks/webhook-deliverer.js';
import {
  change,
  ListFeed,
  ListTenants,
  listening,
  ManualTimers,
  MapCatalog,
  MapAttemptStore,
  MapCursorStore,
  until,
} from '../support/notifier-world.js';

interface Received {
  readonly path: string;
  readonly sequence: number;
  readonly key: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A receiver on the loopback that answers what `answer` says (200 without one). */
async function receiver(
  t: TestContext,
  answer: (received: Received, response: ServerResponse) => void = (_, response) => void response.writeHead(200).end(),
) {
  const received: Received[] = [];
  const server = createServer((request, response) => void take(request, response));
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString('utf8');
    const { data } = JSON.parse(body) as { data: { sequence: number; key: string } };
    const one = { path: request.url ?? '', sequence: data.sequence, key: data.key, headers: request.headers, body };
    received.push(one);
    answer(one, response);
  };
  const url = `http://127.0.0.1:${await listening(server)}/hook`;
  t.after(() => stopServer(server));
  return { url, received, sequences: () => received.map(({ sequence }) => sequence) };
}

const stopServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });

const sealer = new Sealer('a master key for tests');
const { secret: SECRET, secrets } = rotateSecrets(sealer, [], Date.now());
const ISOLATED = { isolated: true, secrets };

/** What was begun, and how it ended. */
class ListAudit implements Pick<AuditTrail, 'begin'> {
  readonly entries: { readonly begun: AuditBegun; ended?: AuditEnded }[] = [];

  begin(begun: AuditBegun): Promise<AuditRecording> {
    const entry: (typeof this.entries)[number] = { begun };
    this.entries.push(entry);
    return Promise.resolve({ end: (ended) => Promise.resolve(void (entry.ended = ended)) });
  }

  /** Of each entry what was done, why, and how that ended. */
  get told(): readonly (readonly unknown[])[] {
    return this.entries.map(({ begun: { keyId, action, object, details }, ended }) => [
      keyId,
      action,
      object['endpointId'],
      details?.['why'],
      ended?.outcome,
    ]);
  }
}

function world(t: TestContext, options: Partial<WebhookDelivererOptions> = {}) {
  const feed = new ListFeed();
  const tenants = new ListTenants();
  tenants.activate('t1', feed);
  const catalog = new MapCatalog();
  catalog.addTenant('t1');
  const timers = new ManualTimers();
  const store = new MapCursorStore();
  const audit = new ListAudit();
  const attempts = new MapAttemptStore();
  const hub = new FeedHub({ notified: tenants, timers });
  followDeletions(catalog, hub);
  const endpoints = new Endpoints({
    catalog,
    room: new CatalogRoom(catalog, Infinity),
    sealer,
    checkUrl: () => Promise.resolve(),
    lastSequence: () => Promise.resolve(feed.lastSequence()),
    notified: tenants,
    most: 100,
    inTime: readsInTime(new Deadlines(10_000)),
    clock: systemClock,
  });
  const deliverer = (): WebhookDeliverer => {
    const one = new WebhookDeliverer({
      hub,
      notified: tenants,
      catalog,
      endpoints,
      audit,
      store,
      attempts,
      unseal: (sealed) => sealer.unseal(sealed),
      logger: silentLogger,
      allowPrivate: true,
      timeoutMs: 5_000,
      timers,
      random: () => 0.5,
      ...options,
    });
    t.after(() => one.close());
    return one;
  };
  const configure = (url: string, fields: object = {}): void => {
    if (catalog.get('projection', 'p1') === undefined) catalog.addProjection('t1', 'p1');
    catalog.addEndpoint('t1', 'p1', { url, ...ISOLATED, ...fields });
  };
  return { feed, tenants, catalog, timers, store, attempts, audit, hub, endpoints, deliverer, configure };
}

test('12, 14: every change arrives signed, with a stable id, in order a key; the record is the one of every channel', async (t) => {
  const w = world(t);
  const to = await receiver(t);
  w.feed.accept(...[1, 2, 3].map((n) => change(n, { cause: 'build' })));
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  await until(() => to.received.length === 3, 'the changes of the build');
  w.feed.accept(...Array.from({ length: 300 }, (_, i) => change(10 + i, { key: `k${i % 7}`, aggregateId: 'ä-"ü"' })));
  await until(() => to.received.length === 303, 'the live changes');
  for (const { headers, body, sequence } of to.received) {
    const verified = new Webhook(SECRET).verify(body, headers as Record<string, string>) as {
      type: string;
      timestamp: string;
      data: { sequence: number; timestamp: string };
    };
    assert.equal(headers['webhook-id'], `msg_p1_${sequence}`);
    assert.equal(verified.type, 'projection.state_changed');
    assert.equal(verified.timestamp, verified.data.timestamp);
    assert.ok(body.includes(`"state":{"n":${sequence},"big":90071992547409931,"f":1.0}`));
  }
  for (const key of new Set(to.received.map((r) => r.key))) {
    const ofKey = to.received.filter((r) => r.key === key).map((r) => r.sequence);
    assert.deepEqual(
      ofKey,
      [...ofKey].sort((a, b) => a - b),
      key,
    );
  }
  await until(
    () => w.store.load('t1/p1')?.end === 310 && w.store.load('t1/p1')?.pending.length === 0,
    'the checkpoint',
  );
});

test('14: a failing key waits, others go on; attempts follow the schedule, then the message is a dead letter and its key goes on', async (t) => {
  const w = world(t);
  const to = await receiver(t, (one, response) => void response.writeHead(one.sequence === 2 ? 500 : 200).end());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(
    change(2, { key: 'bad' }),
    change(3, { key: 'bad' }),
    change(4, { key: 'good' }),
    change(5, { key: 'good' }),
  );
  await until(() => to.received.length === 3 && deliverer.status('p1')?.pending === 2, 'all but the key that fails');
  assert.deepEqual(to.sequences().sort(), [2, 4, 5]);
  assert.equal(deliverer.status('p1')?.cursor, 2);
  const [failed, behind] = w.store.load('t1/p1')?.pending ?? [];
  assert.deepEqual(
    [failed?.slice(0, 2), behind],
    [
      [2, 1],
      [3, 0],
    ],
  );
  // The time of the next attempt is kept too: 5 seconds from the first, on the wall clock.
  const wait = (failed?.[2] ?? 0) - Date.now();
  assert.ok(wait > 0 && wait <= 5_000, String(wait));
  let hours = 0;
  for (let attempt = 2; attempt <= 11; attempt++) {
    await until(() => w.timers.nextAt !== undefined, `the timer of attempt ${attempt}`);
    const before = w.timers.now();
    w.timers.advance((w.timers.nextAt as number) - before);
    hours += (w.timers.now() - before) / 3_600_000;
    await until(() => to.sequences().filter((s) => s === 2).length === attempt, `attempt ${attempt}`);
    await until(
      () => deliverer.status('p1')?.pending === (attempt < 11 ? 2 : 1) && w.timers.nextAt !== undefined,
      'its end',
    );
  }
  assert.ok(hours > 70 && hours < 72, `three days, not ${hours} hours`);
  // An endpoint that failed that often has its next attempt after a pause.
  w.timers.advance(60_000);
  await until(() => deliverer.status('p1')?.pending === 0, 'the key goes on');
  const letters = (deliverer.status('p1')?.deadLetters ?? []).map(({ position, key, attempts, reason }) => ({
    position,
    key,
    attempts,
    reason,
  }));
  assert.deepEqual(letters, [{ position: 2, key: 'bad', attempts: 11, reason: 'answered 500' }]);
  const ids = new Set(to.received.filter((r) => r.sequence === 2).map((r) => r.headers['webhook-id']));
  assert.equal(ids.size, 1, 'the id is that of the change, whatever the attempt');
});

test('14: a restart goes on at the cursor, delivers what was pending again, and nothing that was delivered', async (t) => {
  const w = world(t);
  let broken = true;
  const to = await receiver(
    t,
    (one, response) => void response.writeHead(broken && one.sequence === 2 ? 503 : 200).end(),
  );
  const first = w.deliverer();
  await first.start();
  w.configure(to.url);
  w.feed.accept(change(1), change(2), change(3), change(4));
  await until(() => first.status('p1')?.pending === 1, 'all but one delivered');
  await first.close();
  w.feed.accept(change(6), change(7));
  broken = false;
  const before = to.received.length;
  const second = w.deliverer();
  await second.start();
  await until(() => to.received.length === before + 2, 'what came meanwhile');
  assert.deepEqual(to.sequences().slice(before).sort(), [6, 7], 'what failed waits for its time, across the restart');
  w.timers.advance(5_000);
  await until(() => to.received.length === before + 3, 'the rest');
  assert.deepEqual(to.sequences().slice(before + 2), [2]);
});

test('410 disables the endpoint for good, in the catalog', async (t) => {
  const w = world(t);
  const to = await receiver(t, (_, response) => void response.writeHead(410).end());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  await until(() => w.catalog.get('endpoint', 'p1')?.value.disabledAt !== undefined, 'the catalog knows');
  w.feed.accept(change(2, { key: 'b' }));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(to.received.length, 1);
  assert.equal(deliverer.status('p1'), undefined);
  await until(() => w.audit.entries[0]?.ended !== undefined, 'the audit log has it whole');
  assert.deepEqual(w.audit.told, [['service', 'endpoint.disable', 'p1', 'gone', 'done']]);
});

test('an attempt that its owner asks for and that fails says nothing against the endpoint', async (t) => {
  const limits = { failuresToOpen: 2, retryDelaysMs: Array<number>(20).fill(hours(20)) };
  const w = world(t, { limits });
  const to = await receiver(t, (_, response) => void response.writeHead(500).end());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  const failures = (): number | undefined => w.store.load('t1/p1')?.health?.failures;
  await until(() => failures() === 1, 'its own attempt has failed');
  const running = await deliverer.running('p1');
  // It waits again a moment after the receiver has answered.
  for (let asked = 1; asked <= 3; asked++)
    await until(() => running?.retry('msg_p1_1') === true, `it is attempted again, ${asked}`);
  await until(() => w.attempts.added.get('t1/p1')?.length === 4, 'all four have ended');
  await until(() => running?.retry('msg_p1_1') === true, 'the last one was counted, if any was');
  assert.equal(failures(), 1);
  assert.equal(deliverer.status('p1')?.state, 'delivering');
  assert.deepEqual(
    w.store.load('t1/p1')?.pending.map(([, attempts]) => attempts),
    [1],
  );
});

test('an attempt that its owner asked for takes nothing of the schedule, also where the message came due meanwhile', async (t) => {
  const w = world(t, { limits: { retryDelaysMs: [hours(1), hours(1)] } });
  let posts = 0;
  const to = await receiver(t, (_, response) => {
    if (++posts === 2) w.timers.advance(hours(2));
    response.writeHead(500).end();
  });
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  const attempts = (): number | undefined => w.store.load('t1/p1')?.pending[0]?.[1];
  await until(() => attempts() === 1, 'its own attempt has failed');
  const running = await deliverer.running('p1');
  await until(() => running?.retry('msg_p1_1') === true, 'it is attempted again');
  // The one by schedule follows at once, since it is due.
  await until(() => w.attempts.added.get('t1/p1')?.length === 3, 'all three have ended');
  await until(() => attempts() === 2, 'two are counted');
});

test('who serves the tenant no more disables nothing: its owner may have resumed the endpoint since', async (t) => {
  let isServed = true;
  let begun = 0;
  const begin = (): Promise<AuditRecording> => {
    begun++;
    return Promise.reject(new StatefoldError('UNAVAILABLE', 'the audit log could not be written'));
  };
  const w = world(t, { audit: { begin }, serves: () => isServed });
  const to = await receiver(t, (_, response) => void response.writeHead(410).end());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  await until(() => (w.timers.advance(1_000), begun === 2), 'it is tried again');
  isServed = false;
  await deliverer.reassign();
  for (let minute = 0; minute < 3; minute++) {
    w.timers.advance(60_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(begun, 2);
  assert.equal(w.catalog.get('endpoint', 'p1')?.value.disabledAt, undefined);
});

test('what the audit log does not take disables no endpoint, and nothing is sent to it until it does', async (t) => {
  let isAway = true;
  let refused = 0;
  const begin = (begun: AuditBegun): Promise<AuditRecording> => {
    if (!isAway) return w.audit.begin(begun);
    refused++;
    return Promise.reject(new StatefoldError('UNAVAILABLE', 'the audit log could not be written'));
  };
  const w = world(t, { audit: { begin } });
  const to = await receiver(t, (_, response) => void response.writeHead(410).end());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  await until(() => (w.timers.advance(1_000), refused === 2), 'it is tried again');
  assert.equal(w.catalog.get('endpoint', 'p1')?.value.disabledAt, undefined);
  isAway = false;
  await until(() => (w.timers.advance(1_000), w.audit.entries[0]?.ended !== undefined), 'the audit log has it');
  assert.notEqual(w.catalog.get('endpoint', 'p1')?.value.disabledAt, undefined);
  assert.deepEqual(to.sequences(), [1]);
});

const hours = (n: number): number => n * 3_600_000;

/** An endpoint that is disabled after five days of failures, at a clock that the test sets. */
async function failing(t: TestContext) {
  const clock = { at: Date.parse('2026-01-01T00:00:00.000Z') };
  const limits = { failuresToOpen: 2, disableAfterMs: hours(120), retryDelaysMs: Array<number>(20).fill(hours(20)) };
  const w = world(t, { clock: { now: () => clock.at }, limits });
  const answers = { broken: true };
  const to = await receiver(t, (_, response) => void response.writeHead(answers.broken ? 503 : 200).end());
  let deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  let sequence = 0;
  const isDisabled = (): boolean => w.catalog.get('endpoint', 'p1')?.value.disabledAt !== undefined;
  const failures = (): number => deliverer.status('p1')?.health?.failures ?? 0;
  return {
    w,
    to,
    clock,
    answers,
    isDisabled,
    status: () => deliverer.status('p1'),
    /** One more attempt has failed. */
    fails: async (): Promise<void> => {
      const before = failures();
      sequence++;
      w.feed.accept(change(sequence, { key: `k${sequence}` }));
      // Between two attempts at one that fails there is a pause.
      await until(() => (w.timers.advance(60_000), failures() > before || isDisabled()), 'an attempt has failed');
    },
    restart: async (down: number): Promise<void> => {
      await deliverer.close();
      clock.at += down;
      deliverer = w.deliverer();
      await deliverer.start();
    },
  };
}

test('an endpoint all of whose attempts fail for days is disabled, and goes on with what is pending when it is resumed', async (t) => {
  const { w, to, clock, answers, isDisabled, status, fails } = await failing(t);
  await fails();
  clock.at += hours(1);
  await fails();
  for (let step = 0; step < 3; step++) {
    clock.at += hours(39);
    await fails();
  }
  assert.equal(isDisabled(), false, 'for less than five days');

  // A delivery between begins the days anew.
  answers.broken = false;
  await until(() => (w.timers.advance(hours(1)), status()?.pending === 0), 'all are delivered');
  answers.broken = true;
  clock.at += hours(2);
  await fails();
  await fails();
  for (let step = 0; step < 3; step++) {
    assert.equal(isDisabled(), false);
    clock.at += hours(40);
    await fails();
  }
  await until(isDisabled, 'it is disabled');
  assert.equal(w.catalog.get('endpoint', 'p1')?.value.disabledFor, 'failures');
  await until(() => w.audit.entries[0]?.ended !== undefined, 'the audit log has it whole');
  assert.deepEqual(w.audit.told, [['service', 'endpoint.disable', 'p1', 'failures', 'done']]);
  assert.equal(status(), undefined);
  answers.broken = false;
  await w.endpoints.resume('t1', 'p1');
  await until(() => status()?.pending === 0, 'what was pending is delivered');
  assert.deepEqual(to.sequences().slice(-5).sort(), [6, 7, 8, 9, 10].sort());
});

test('days in which nothing was attempted are none in which an endpoint has failed', async (t) => {
  const { clock, isDisabled, fails, restart } = await failing(t);
  for (let step = 0; step < 3; step++) {
    await fails();
    clock.at += hours(40);
  }
  await restart(hours(400));
  await fails();
  assert.equal(isDisabled(), false, 'the service was stopped');
  clock.at += hours(400);
  await fails();
  assert.equal(isDisabled(), false, 'there was no message');
  for (let step = 0; step < 3; step++) {
    assert.equal(isDisabled(), false);
    clock.at += hours(40);
    await fails();
  }
  await until(isDisabled, 'five days further on it is disabled');
});

test('what waited is due when its endpoint is resumed, also where the tenant can not be opened at once', async (t) => {
  const w = world(t, { limits: { retryDelaysMs: [hours(1)] } });
  let broken = true;
  const to = await receiver(t, (_, response) => void response.writeHead(broken ? 503 : 200).end());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1));
  await until(() => deliverer.status('p1')?.lastFailure !== undefined, 'it has failed');
  await w.endpoints.pause('t1', 'p1');
  await until(() => deliverer.status('p1') === undefined, 'it is stopped');
  broken = false;
  const open = t.mock.method(w.tenants, 'open');
  open.mock.mockImplementationOnce(() => Promise.reject(new Error('away')));
  await w.endpoints.resume('t1', 'p1');
  await until(() => open.mock.callCount() === 1, 'it was to begin');
  let left = 60;
  await until(() => {
    // A start that is put off is tried again after seconds, and the message is due by its schedule after an hour.
    if (left-- > 0) w.timers.advance(1_000);
    return to.received.length === 2;
  }, 'what waited is sent');
});

test('a 410 that the catalog refuses to write down is written later, and nothing is sent meanwhile', async (t) => {
  let isFull = true;
  let refused = 0;
  const disable: Endpoints['disable'] = (endpointId, url, why) => {
    if (!isFull) return w.endpoints.disable(endpointId, url, why);
    refused++;
    return Promise.reject(new StatefoldError('UNAVAILABLE', 'the catalog is not writable'));
  };
  const w = world(t, { endpoints: { disable } });
  const to = await receiver(t, (_, response) => void response.writeHead(410).end());
  const moved = await receiver(t);
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  await until(() => refused === 1, 'it is refused');
  // What else begins endpoints does not begin this one.
  w.configure(to.url, { ratePerSecond: 5 });
  await deliverer.reassign();
  w.feed.accept(change(2, { key: 'b' }));
  await until(() => (w.timers.advance(1_000), refused === 3), 'it is tried again');
  isFull = false;
  await until(
    () => (w.timers.advance(1_000), w.catalog.get('endpoint', 'p1')?.value.disabledAt !== undefined),
    'the catalog knows',
  );
  assert.deepEqual(to.sequences(), [1]);
  await until(() => w.audit.entries[0]?.ended !== undefined, 'the audit log has it whole');
  assert.deepEqual(w.audit.told, [['service', 'endpoint.disable', 'p1', 'gone', 'done']], 'all tries are one entry');
  w.configure(moved.url);
  await until(() => moved.received.length === 2, 'nothing is lost');
});

test('410 of a URL that the endpoint has no more disables nothing: what was sent there goes to the new one', async (t) => {
  const w = world(t);
  const asked: ServerResponse[] = [];
  const old = await receiver(t, (_, response) => void asked.push(response));
  const moved = await receiver(t);
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(old.url);
  w.feed.accept(change(1, { key: 'a' }));
  await until(() => asked.length === 1, 'the old one is asked');
  w.configure(moved.url);
  asked[0]?.writeHead(410).end();
  await until(() => moved.received.length === 1, 'the new one has it');
  assert.equal(w.catalog.get('endpoint', 'p1')?.value.disabledAt, undefined);
  w.feed.accept(change(2, { key: 'a' }));
  await until(() => moved.received.length === 2, 'and what comes later');
});

test('endpoints that are made at once are no more than the limit', async (t) => {
  const { endpoints } = world(t);
  const made = await Promise.allSettled(
    Array.from({ length: 140 }, () =>
      endpoints.create('t1', {
        url: 'https://example.com/hook',
        source: { feed: {} },
        isolateSecret: true,
        from: 'start',
      }),
    ),
  );
  assert.equal(made.filter(({ status }) => status === 'fulfilled').length, 100);
  assert.equal(endpoints.list('t1').length, 100);
  for (const one of made)
    if (one.status === 'rejected') assert.equal((one.reason as { code: string }).code, 'QUOTA_EXCEEDED');
});

test('redirects are refused and count as failures; a huge answer is not read; 429 pauses the whole endpoint', async (t) => {
  const w = world(t);
  const elsewhere = await receiver(t);
  let sent = 0;
  const to = await receiver(t, (one, response) => {
    if (one.sequence === 1) response.writeHead(307, { location: elsewhere.url }).end();
    else if (one.sequence === 2) {
      response.writeHead(200);
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536))) sent += 65_536;
      };
      response.on('drain', more);
      more();
    } else response.writeHead(one.sequence === 3 ? 429 : 200, { 'retry-after': '60' }).end();
  });
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(to.url);
  w.feed.accept(change(1, { key: 'a' }));
  await until(() => deliverer.status('p1')?.lastFailure !== undefined, 'the redirect fails');
  assert.equal(deliverer.status('p1')?.lastFailure, 'answered 307: redirects are not followed');
  assert.equal(elsewhere.received.length, 0);
  w.feed.accept(change(2, { key: 'b' }));
  await until(() => deliverer.status('p1')?.pending === 1, 'an endless answer of 200 is a delivery');
  assert.ok(sent < 32 * 1024 * 1024, `${sent} bytes were taken`);
  w.feed.accept(change(3, { key: 'c' }));
  await until(() => deliverer.status('p1')?.lastFailure === 'answered 429', 'the limit');
  w.feed.accept(change(4, { key: 'd' }));
  w.timers.advance(59_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(!to.sequences().includes(4), 'paused');
  w.timers.advance(2_000);
  await until(() => to.sequences().includes(4), 'the pause is over');
});

test('15: the secret that a rotation answers verifies the next delivery, the old one for another day and no longer', async (t) => {
  let now = Date.now();
  const w = world(t, { clock: { now: () => now } });
  const to = await receiver(t);
  const deliverer = w.deliverer();
  const shared = rotateSecrets(sealer, [], now);
  w.catalog.addTenant('t1', shared.secrets);
  await deliverer.start();
  w.configure(to.url, { isolated: false, secrets: [] });
  w.feed.accept(change(1));
  await until(() => to.received.length === 1, 'the first');
  const rotated = rotateSecrets(sealer, shared.secrets, now);
  w.catalog.addTenant('t1', rotated.secrets);
  w.feed.accept(change(2));
  await until(() => to.received.length === 2, 'the second');
  // The library checks the clock too, so a delivery of the next day is verified against a signature of our own.
  now += 24 * 3600_000 + 1_000;
  w.feed.accept(change(3));
  await until(() => to.received.length === 3, 'the third');
  const verifies = (i: number, secret: string): boolean => {
    const { headers, body } = to.received[i] as Received;
    const at = new Date(Number(headers['webhook-timestamp']) * 1_000);
    return (headers['webhook-signature'] as string)
      .split(' ')
      .includes(new Webhook(secret).sign(headers['webhook-id'] as string, at, body));
  };
  assert.deepEqual(
    [0, 1, 2].map((i) => [verifies(i, shared.secret), verifies(i, rotated.secret)]),
    [
      [true, false],
      [true, true],
      [false, true],
    ],
  );
  assert.ok(!verifies(1, mintWebhookSecret()));
  assert.ok(
    new Webhook(shared.secret).verify(
      (to.received[1] as Received).body,
      (to.received[1] as Received).headers as Record<string, string>,
    ),
  );
});

test('a name that turns private after the upload is not dialled', async (t) => {
  const to = await receiver(t);
  const { port } = new URL(to.url);
  const asked: string[] = [];
  const w = world(t, {
    allowPrivate: false,
    resolve: (host) => {
      asked.push(host);
      return Promise.resolve(['127.0.0.1']);
    },
  });
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(`http://rebind.example.com:${port}/hook`);
  w.feed.accept(change(1));
  await until(() => deliverer.status('p1')?.lastFailure !== undefined, 'the refusal');
  assert.match(deliverer.status('p1')?.lastFailure ?? '', /not public \(loopback\)/);
  assert.deepEqual(asked, ['rebind.example.com']);
  w.configure(to.url);
  await until(
    () => w.timers.nextAt !== undefined && deliverer.status('p1')?.state === 'delivering',
    'the literal address',
  );
  w.timers.advance(5_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(to.received.length, 0);
});

test('a certificate that nobody vouches for is a failure', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'statefold-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  try {
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-keyout',
        key,
        '-out',
        cert,
        '-days',
        '1',
        '-subj',
        '/CN=localhost',
      ],
      { stdio: 'ignore' },
    );
  } catch {
    t.skip('openssl is not installed');
    return;
  }
  let requests = 0;
  const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) => {
    requests++;
    response.end();
  });
  const port = await listening(server);
  t.after(() => stopServer(server));
  const w = world(t);
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(`https://localhost:${port}/hook`);
  w.feed.accept(change(1));
  await until(() => deliverer.status('p1')?.lastFailure !== undefined, 'the refusal');
  assert.match(deliverer.status('p1')?.lastFailure ?? '', /self[- ]signed/);
  assert.equal(requests, 0);
});

test('14: dead endpoints of one tenant delay nothing of another, hold few connections, and are tried again until they answer', async (t) => {
  const w = world(t, { timeoutMs: 60_000, limits: { concurrencyOfAll: 4, concurrencyOfTenant: 2, failuresToOpen: 2 } });
  const hanging: ServerResponse[] = [];
  let dead = true;
  const never = await receiver(t, (_, response) => (dead ? void hanging.push(response) : void response.end()));
  const alive = await receiver(t);
  const other = new ListFeed();
  w.tenants.activate('t2', other);
  const deliverer = w.deliverer();
  await deliverer.start();
  for (let i = 0; i < 5; i++)
    w.catalog.addProjection('t1', `dead${i}`, {
      webhook: { url: never.url, ...ISOLATED },
    });
  w.catalog.addProjection('t2', 'alive', {
    tenantId: 't2',
    webhook: { url: alive.url, ...ISOLATED },
  });
  w.feed.accept(...Array.from({ length: 50 }, (_, i) => change(i + 1, { projectionId: `dead${i % 5}`, key: `k${i}` })));
  await until(() => hanging.length === 2, 'the tenant has its share of the connections');
  other.accept(...Array.from({ length: 20 }, (_, i) => change(i + 1, { projectionId: 'alive' })));
  await until(() => alive.received.length === 20, 'the other tenant');
  assert.equal(never.received.length, 2);
  // Failing, each endpoint is tried by one request at a time, with pauses.
  for (let i = 0; i < 100 && deliverer.status('dead0')?.state !== 'failing'; i++) {
    for (const response of hanging.splice(0)) response.writeHead(500).end();
    await until(() => hanging.length > 0 || w.timers.nextAt !== undefined, 'a next attempt');
    if (hanging.length === 0) w.timers.advance(1_000);
  }
  assert.equal(deliverer.status('dead0')?.state, 'failing');
  dead = false;
  for (
    let i = 0;
    i < 500 &&
    Array.from({ length: 5 }, (_, n) => deliverer.status(`dead${n}`)?.pending).some((pending) => pending !== 0);
    i++
  ) {
    for (const response of hanging.splice(0)) response.end();
    w.timers.advance(1_000);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  assert.equal(new Set(never.received.filter((r) => r.path === '/hook').map((r) => r.headers['webhook-id'])).size, 50);
  assert.equal(deliverer.status('dead0')?.state, 'delivering');
});

test('an endpoint that is added later begins with what comes then; one that was taken away is forgotten', async (t) => {
  const w = world(t);
  const to = await receiver(t);
  const deliverer = w.deliverer();
  await deliverer.start();
  w.catalog.addProjection('t1', 'p1');
  w.feed.accept(change(1), change(2));
  w.configure(to.url, { since: 2 });
  w.feed.accept(change(3), change(4));
  await until(() => to.received.length === 2, 'what came since it was added, however late it begins');
  assert.deepEqual(to.sequences().sort(), [3, 4]);
  w.catalog.set('projection', 'p1', undefined);
  await until(() => w.store.load('t1/p1') === undefined, 'the cursor is deleted');
});

test('an endpoint whose tenant went to another process, or that was paused, while others began does not begin here', async (t) => {
  const to = await receiver(t);
  const served = new Set<string>();
  const w = world(t, { serves: (tenantId) => served.has(tenantId) });
  const open = w.tenants.open.bind(w.tenants);
  let letGo = (): void => undefined;
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  w.tenants.open = async (tenantId) => {
    await gate;
    return open(tenantId);
  };
  for (let i = 1; i <= 6; i++) {
    served.add(`t${i}`);
    w.tenants.activate(`t${i}`, new ListFeed());
    w.catalog.addTenant(`t${i}`);
    w.catalog.addProjection(`t${i}`, `p${i}`);
    w.catalog.addEndpoint(`t${i}`, `p${i}`, { url: to.url, ...ISOLATED });
  }
  const deliverer = w.deliverer();
  const started = deliverer.start();
  served.delete('t5');
  const again = deliverer.reassign();
  w.catalog.addEndpoint('t6', 'p6', { url: to.url, ...ISOLATED, pausedAt: new Date().toISOString() });
  letGo();
  await Promise.all([started, again]);
  await until(
    () => deliverer.status('p1') !== undefined && deliverer.status('p4') !== undefined,
    'the first ones begin',
  );
  assert.deepEqual([await deliverer.running('p5'), await deliverer.running('p6')], [undefined, undefined]);
});

test('14, 15: two endpoints of one projection are two: each with its own secret, place, and failures', async (t) => {
  const w = world(t);
  const [one, two] = [await receiver(t), await receiver(t, (_, response) => void response.writeHead(500).end())];
  const other = rotateSecrets(sealer, [], Date.now());
  const deliverer = w.deliverer();
  await deliverer.start();
  w.configure(one.url);
  const second = { tenantId: 't1', endpointId: 'e2', source: { projectionId: 'p1' }, isolated: true };
  w.catalog.set('endpoint', 'e2', { ...second, url: two.url, secrets: other.secrets, since: 1 });
  w.feed.accept(change(1, { key: 'a' }), change(2, { key: 'b' }));
  await until(() => one.received.length === 2 && two.received.length === 1, 'each is told');
  await until(
    () => deliverer.status('e2')?.lastFailure !== undefined && deliverer.status('p1')?.pending === 0,
    'one of them fails',
  );
  assert.deepEqual([deliverer.status('p1')?.pending, deliverer.status('e2')?.pending], [0, 1]);
  assert.deepEqual(two.sequences(), [2], 'from where it was added');
  const [{ headers, body }] = two.received as [Received];
  assert.ok(new Webhook(other.secret).verify(body, headers as Record<string, string>));
  assert.throws(() => new Webhook(SECRET).verify(body, headers as Record<string, string>));
  // With the projection both end, and what was kept of them.
  w.catalog.set('projection', 'p1', undefined);
  await until(() => w.store.saved.size === 0, 'both are forgotten');
  assert.deepEqual([deliverer.status('p1'), deliverer.status('e2')], [undefined, undefined]);
});

test('a webhook that an older release stored in the projection goes on, and is an entity from its first change on', async (t) => {
  const w = world(t);
  let answer = 200;
  const to = await receiver(t, (_, response) => void response.writeHead(answer).end());
  const moved = await receiver(t);
  w.catalog.addProjection('t1', 'p1', { webhook: { url: to.url, ...ISOLATED, since: 1 } });
  w.feed.accept(change(1), change(2));
  const deliverer = w.deliverer();
  await deliverer.start();
  await until(() => to.received.length === 1, 'it goes on from where it was added');
  const { headers, body } = to.received[0] as Received;
  const rotated = await w.endpoints.rotateOfProjection(projectionOf(w));
  assert.equal(projectionOf(w).webhook, undefined);
  const entity = w.catalog.get('endpoint', 'p1')?.value;
  assert.deepEqual([entity?.url, entity?.since, entity?.secrets.length], [to.url, 1, 2]);
  w.feed.accept(change(3));
  await until(() => to.received.length === 2, 'it is the same endpoint still');
  for (const secret of [SECRET, rotated])
    assert.ok(
      new Webhook(secret).verify(to.received[1]?.body ?? '', to.received[1]?.headers as Record<string, string>),
    );
  assert.throws(() => new Webhook(rotated).verify(body, headers as Record<string, string>));

  // 410 finds another that is as it was stored.
  answer = 410;
  w.catalog.addProjection('t1', 'p2', { webhook: { url: to.url, ...ISOLATED } });
  w.feed.accept(change(4, { projectionId: 'p2' }));
  await until(() => w.catalog.get('endpoint', 'p2')?.value.disabledAt !== undefined, 'it is disabled');
  assert.equal(w.catalog.get('projection', 'p2')?.value.webhook, undefined);
  const config = { webhookUrl: moved.url, isolateSecret: undefined };
  await (
    await w.endpoints.configuring('t1', config, projectionOf(w, 'p2'))
  )('p2');
  await until(() => moved.received.length === 1, 'naming a URL enables it, and what was pending goes there');
  await (
    await w.endpoints.configuring('t1', { ...config, webhookUrl: null, isolateSecret: false }, undefined)
  )('p2');
  assert.equal(w.catalog.get('endpoint', 'p2'), undefined);
  await until(() => w.store.load('t1/p2') === undefined, 'one that is taken away is forgotten');
});

const projectionOf = (w: ReturnType<typeof world>, projectionId = 'p1'): ProjectionEntity => {
  const projection = w.catalog.get('projection', projectionId)?.value;
  assert.ok(projection);
  return projection;
};

test('while others hold all the memory for webhooks, a key that waits holds up no other, and room is seen', async (t) => {
  const budget = new MemoryBudget({ processBytes: 8e6, tenantBytes: 2e6 });
  const others = budget.tenant('t2').hold('webhooks');
  others.add(1e6);
  const w = world(t, { budget });
  const held: ServerResponse[] = [];
  const to = await receiver(t, ({ key }, response) => {
    if (key === 'slow') held.push(response);
    else response.writeHead(key === 'bad' ? 500 : 200).end();
  });
  await w.deliverer().start();
  w.configure(to.url);
  const good = Array.from({ length: 50 }, (_, i) => change(2 + i, { key: `good${i}` }));
  w.feed.accept(change(1, { key: 'bad' }), ...good);
  await until(() => to.received.length === 51, 'what is not of the key that waits');
  w.feed.accept(change(60, { key: 'slow' }), change(61, { key: 'good' }));
  await until(() => held.length === 1, 'the receiver that does not answer');
  assert.equal(to.received.length, 52, 'one at a time');
  others.close();
  w.timers.advance(1_000);
  await until(() => to.sequences().includes(61), 'what there is room for');
  for (const response of held) response.end();
});

test('what is left of the pages of full endpoints is held of the budget, in half of its share at most; the rest is read again', async (t) => {
  const budget = new MemoryBudget({ processBytes: 64e6, tenantBytes: 16e6 });
  const w = world(t, { budget, limits: { windowMessages: 4 } });
  let held: ServerResponse[] | undefined = [];
  const to = await receiver(t, (_, response) => {
    if (held === undefined) response.writeHead(200).end();
    else held.push(response);
  });
  const ENDPOINTS = 4;
  const CHANGES = 256;
  const state = Buffer.from(JSON.stringify('x'.repeat(3_000)));
  w.feed.accept(...Array.from({ length: CHANGES }, (_, i) => change(1 + i, { key: `k${i}`, state })));
  w.catalog.addProjection('t1', 'p1');
  for (let i = 0; i < ENDPOINTS; i++) {
    const endpoint = { tenantId: 't1', endpointId: `e${i}`, source: { projectionId: 'p1' }, ...ISOLATED, since: 0 };
    w.catalog.set('endpoint', `e${i}`, { ...endpoint, url: to.url });
  }
  await w.deliverer().start();
  await until(() => held?.length === 4 * ENDPOINTS, 'all endpoints are full');
  // Of one endpoint what is left of a page is some 800 KB.
  const bytes = budget.held('webhooks');
  assert.ok(bytes > 0.7e6 && bytes < 1.1e6, `${bytes}`);

  for (const response of held) response.writeHead(200).end();
  held = undefined;
  await until(() => to.received.length === ENDPOINTS * CHANGES, 'all is delivered, once');
  await until(() => budget.held('webhooks') === 0, 'nothing is held any more');
});
