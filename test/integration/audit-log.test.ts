// Entries of the audit log on an embedded log: how they are told where their end is missing, by which process, and in which pages.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { AuditLog, AUDIT_TOPIC } from '../../src/audit/audit-log.js';
import type { AuditBegun, AuditEntry, AuditFilter } from '../../src/audit/audit-entry.js';
import { silentLogger } from '../../src/core/logger.js';
import type { Turn } from '../../src/core/turns.js';
import { AppendRefusedError, type Log } from '../../src/log/log.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { temporaryDirectory } from '../support/service.js';

const DAY_MS = 86_400_000;
const by = (tenantId: string, n = 0): AuditBegun => ({
  tenantId,
  tenantCreatedAt: '2026-01-01T00:00:00.000Z',
  keyId: 'key-1',
  keyName: 'ci',
  action: 'reducer.delete',
  object: { reducerId: `r-${n}` },
  requestId: `q-${n}`,
});

const open = (log: Log): Promise<AuditLog> => AuditLog.open({ log, retentionMs: DAY_MS, logger: silentLogger });

function opened(t: TestContext): Log {
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
  t.after(() => log.close());
  return log;
}

interface ParsedPage {
  readonly entries: readonly AuditEntry[];
  readonly next: number | undefined;
}

async function pageOf(audit: AuditLog, filter: AuditFilter, turn?: Turn): Promise<ParsedPage> {
  const { entries, next } = await audit.list(filter, turn);
  return { entries: JSON.parse(`[${entries.join(',')}]`) as readonly AuditEntry[], next };
}

test('an entry is one, with its end, and unknown until that is there', async (t) => {
  const log = opened(t);
  const [audit, other] = [await open(log), await open(log)];
  const recording = await audit.begin(by('acme'));
  for (const one of [audit, other])
    assert.deepEqual(
      (await pageOf(one, { limit: 10 })).entries.map(({ outcome, object }) => [outcome, object]),
      [['unknown', { reducerId: 'r-0' }]],
    );
  await recording.end({ outcome: 'refused', status: 404, code: 'NOT_FOUND', object: { more: '1' } });
  for (const one of [audit, other, await open(log)]) {
    const { entries, next } = await pageOf(one, { limit: 10 });
    assert.equal(next, undefined);
    assert.deepEqual(
      entries.map(({ outcome, status, code, keyName, object }) => ({ outcome, status, code, keyName, object })),
      [{ outcome: 'refused', status: 404, code: 'NOT_FOUND', keyName: 'ci', object: { reducerId: 'r-0', more: '1' } }],
    );
    assert.ok((entries[0]?.endedAt ?? '') >= (entries[0]?.at ?? 'z'));
  }
});

test('a tenant gets its own, the newest first, through pages that others fill', async (t) => {
  const log = opened(t);
  const audit = await open(log);
  const begun = await Promise.all(
    Array.from({ length: 6_000 }, (_, n) => audit.begin(by(n % 3_000 === 7 ? 'small' : 'large', n))),
  );
  await Promise.all(begun.map((one) => one.end({ outcome: 'done', status: 200 })));
  // A former tenant of the same id, and one more at the end.
  const former = await audit.begin({ ...by('small', 9_999), tenantCreatedAt: '2025-01-01T00:00:00.000Z' });
  await former.end({ outcome: 'done', status: 204 });
  const seen: string[] = [];
  let [before, pages]: [number | undefined, number] = [undefined, 0];
  do {
    const page: ParsedPage = await pageOf(audit, {
      ...{ tenantId: 'small', tenantCreatedAt: '2026-01-01T00:00:00.000Z', limit: 1 },
      ...(before === undefined ? {} : { before }),
    });
    seen.push(...page.entries.map(({ requestId }) => requestId));
    before = page.next;
    pages++;
  } while (before !== undefined);
  assert.deepEqual(seen, ['q-3007', 'q-7']);
  assert.ok(pages > 2, `${pages} pages: each looks at a part`);
  const all: string[] = [];
  before = undefined;
  do {
    const page: ParsedPage = await pageOf(audit, {
      limit: 1_000,
      ...(before === undefined ? {} : { before }),
    });
    all.push(...page.entries.map(({ id }) => id));
    before = page.next;
  } while (before !== undefined);
  assert.equal(all.length, 6_001);
  assert.equal(new Set(all).size, 6_001);
});

test('filters: kind of action, key, object, outcome and time, each and together', async (t) => {
  const log = opened(t);
  const audit = await open(log);
  const made: Partial<AuditBegun>[] = [
    { action: 'reducer.delete', keyId: 'key-1', object: { reducerId: 'r-1' } },
    { action: 'reducer.deploy', keyId: 'key-2', object: { reducerId: 'r-2' } },
    { action: 'reducers.other', keyId: 'key-1', object: { reducerId: 'r-1', projectionId: 'p-1' } },
  ];
  for (const [n, fields] of made.entries()) {
    const recording = await audit.begin({ ...by('acme', n), ...fields });
    if (n < 2) await recording.end({ outcome: n === 0 ? 'done' : 'refused' });
  }
  const found = async (filter: Omit<AuditFilter, 'limit'>): Promise<string> =>
    (await pageOf(audit, { ...filter, limit: 10 })).entries.map(({ requestId }) => requestId).join(' ');
  assert.equal(await found({ action: 'reducer' }), 'q-1 q-0');
  assert.equal(await found({ action: 'reducer.delete' }), 'q-0');
  assert.equal(await found({ action: 'reduce' }), '');
  assert.equal(await found({ keyId: 'key-1' }), 'q-2 q-0');
  assert.equal(await found({ objectId: 'r-1' }), 'q-2 q-0');
  assert.equal(await found({ outcome: 'unknown' }), 'q-2');
  assert.equal(await found({ objectId: 'r-1', outcome: 'done' }), 'q-0');
  const [, second] = (await pageOf(audit, { limit: 10 })).entries;
  const at = Date.parse(second?.at ?? '');
  for (const [filter, holds] of [
    [{ from: at }, true],
    [{ from: at + 60_000 }, false],
    [{ to: at }, false],
    [{ to: at + 60_000 }, true],
  ] as const)
    assert.equal((await found(filter)).includes('q-1'), holds, JSON.stringify(filter));
  // What began long before is not looked for.
  assert.deepEqual(await pageOf(audit, { limit: 10, from: at + 3_600_000 }), { entries: [], next: undefined });
});

test('what can not be recorded is not begun, and an end that is lost leaves it unknown', async (t) => {
  const log = opened(t);
  let full = false;
  const refusing: Log = new Proxy(log, {
    get: (target, name) => {
      if (name === 'append' && full) return () => Promise.reject(new AppendRefusedError('the disk is full'));
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  const audit = await open(refusing);
  const recording = await audit.begin(by('acme'));
  full = true;
  await recording.end({ outcome: 'done', status: 200 });
  await assert.rejects(audit.begin(by('acme', 1)), { code: 'UNAVAILABLE', retryable: true });
  const { entries } = await pageOf(audit, { limit: 10 });
  assert.deepEqual(
    entries.map(({ requestId, outcome, status }) => [requestId, outcome, status]),
    [['q-0', 'unknown', undefined]],
  );
});

test('what comes while a produce is under way is written with the next one, and a produce that fails fails what it has', async (t) => {
  const log = opened(t);
  const audit = await open(log);
  const produces: number[] = [];
  let fails = false;
  const append = log.append.bind(log);
  t.mock.method(log, 'append', async (...[to, records]: Parameters<Log['append']>) => {
    produces.push(records.length);
    if (fails && records.length > 1) throw new AppendRefusedError('the broker is away');
    return append(to, records);
  });
  const begin = (count: number): Promise<PromiseSettledResult<unknown>[]> =>
    Promise.allSettled(Array.from({ length: count }, (_, n) => audit.begin(by('acme', n))));
  const statuses = async (count: number): Promise<readonly string[]> =>
    (await begin(count)).map(({ status }) => status);
  assert.deepEqual(new Set(await statuses(20)), new Set(['fulfilled']));
  assert.deepEqual(produces.splice(0), [1, 19]);
  fails = true;
  assert.deepEqual(await statuses(3), ['fulfilled', 'rejected', 'rejected']);
  fails = false;
  assert.deepEqual(await statuses(1), ['fulfilled']);
  const { entries } = await pageOf(audit, { limit: 100 });
  assert.equal(entries.length, 22);
});

test('records that are none of ours are passed over', async (t) => {
  const log = opened(t);
  const audit = await open(log);
  await (await audit.begin(by('acme'))).end({ outcome: 'done', status: 200 });
  const values = ['no json', '0', 'null', '""', '[]'].map((text) => Buffer.from(text));
  const foreign = [...values, null].map((value) => ({ key: Buffer.from('x'), value }));
  await log.append({ topic: AUDIT_TOPIC, partition: 0 }, foreign);
  assert.equal((await pageOf(audit, { limit: 10 })).entries.length, 1);
});

test('a page that looks at many entries for none is made over many turns, and so is what a new process reads first', async (t) => {
  const log = opened(t);
  const audit = await open(log);
  const details = Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`name-${n}`, n]));
  const begun = await Promise.all(Array.from({ length: 1_000 }, (_, n) => audit.begin({ ...by('large', n), details })));
  const costs: number[] = [];
  const turn = (cost: number): Promise<void> => {
    costs.push(cost);
    return new Promise((resolve) => setImmediate(resolve));
  };
  const paging = pageOf(audit, { limit: 10, action: 'nothing' }, turn);
  // What ends meanwhile was under way when the page was asked for.
  const all = pageOf(audit, { limit: 1_000 });
  await Promise.all(begun.map((one) => one.end({ outcome: 'done', status: 200 })));
  assert.deepEqual(await paging, { entries: [], next: undefined });
  assert.ok(costs.length >= 1_000 / 30, `${costs.length} turns`);
  assert.ok(Math.max(...costs) < 40, `${Math.max(...costs)} at once`);
  const { entries } = await all;
  assert.ok(entries.length > 100, `${entries.length} entries`);
  const fresh = await open(log);
  let isRead = false;
  const first = pageOf(fresh, { limit: 1 }).finally(() => (isRead = true));
  let turns = 0;
  for (; !isRead; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal((await first).entries.length, 1);
  assert.ok(turns > 15, `${turns} turns`);
});
