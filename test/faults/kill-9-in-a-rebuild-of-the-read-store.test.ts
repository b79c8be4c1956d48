// Analysts and tenants ask all the while: the service rebuilds its read store, dies at named places in it, and goes on after the next
// start. Nobody ever sees fewer rows than before, and in the end there is what the log has, once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { noJail } from '../hostile/escape-world.js';
import { Api, success } from '../support/api.js';
import { totals } from '../support/csharp.js';
import type { CrashPoint } from '../support/faulty-service.js';
import { step } from '../support/load-scenario.js';
import {
  FAULTY_SERVICE,
  AS_ADMIN,
  programOf,
  startService,
  temporaryDirectory,
  until,
  type Answer,
  type Service,
} from '../support/service.js';

const EVENTS = 4000;
const BATCH = 250;
const KEYS = 40;
/** So large that a rebuild takes several blocks. */
const TEXT = 'x'.repeat(2000);
const MS = 120_000;

interface Rebuild {
  readonly state: string;
  readonly since: string;
  readonly endedAt?: string;
}

const COUNTS = `SELECT toUInt32((SELECT countIf(aggregate_id != 'stray') FROM events FINAL)) AS events, toUInt32((SELECT count() FROM projection_states FINAL)) AS states, toUInt32((SELECT count() FROM notifications FINAL)) AS notifications, toUInt32((SELECT sum(log_offset) FROM watermarks FINAL)) AS watermarks FORMAT JSONEachRow`;
type Counts = Readonly<Record<'events' | 'states' | 'notifications' | 'watermarks', number>>;

test('kill -9 in a rebuild of the read store', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service: Service;
  let api!: Api;
  const start = async (fuse: `${CrashPoint}:${number}` | '' = ''): Promise<void> => {
    const program = programOf(FAULTY_SERVICE);
    service = await startService(t, { dataDirectory, program, readStore: true, env: { FUSE: fuse } });
    api = new Api(service);
    await api.readStoreAccess();
  };
  const ask = async (sql: string): Promise<string> => {
    const { url, user, password, database } = await api.readStoreAccess();
    const answer = await fetch(`${url}/?database=${database}`, {
      method: 'POST',
      body: sql,
      headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
    });
    const text = await answer.text();
    assert.ok(answer.ok, text);
    return text;
  };
  const rebuildOf = async (): Promise<Rebuild | undefined> =>
    success(await api.get('/admin/processes/activity', AS_ADMIN), 200).json<{ readStoreRebuild?: Rebuild }>()
      .readStoreRebuild;
  const counts = async (): Promise<Counts> => JSON.parse(await ask(COUNTS)) as Counts;
  const strays = async (): Promise<number> =>
    Number(await ask("SELECT count() FROM events WHERE aggregate_id = 'stray'"));
  const rebuild = (of = ''): Promise<Answer> => api.post(`/admin/read-store/rebuild${of}`, undefined, AS_ADMIN);
  const addStray = (): Promise<string> =>
    ask("INSERT INTO events (tenant, aggregate_id, version) SELECT 'default', 'stray', 1");

  /** Whoever asks an engine that is away asks again. */
  const seen: { readonly during: string; readonly counts: Counts }[] = [];
  let during = '';
  let isEnded = false;
  t.after(() => (isEnded = true));
  const asking = async (): Promise<void> => {
    while (!isEnded) {
      const now = during;
      const found = await counts().catch(() => delay(20));
      if (found !== undefined) seen.push({ during: now, counts: found });
    }
  };
  const neverLess = (): void => {
    for (const [i, { counts: now }] of seen.entries())
      for (const [what, count] of Object.entries(now)) {
        const before = seen[Math.max(0, i - 1)]?.counts[what as keyof Counts] ?? 0;
        assert.ok(
          count >= before,
          `${what}: ${count} after ${before}, in ${JSON.stringify(seen.slice(Math.max(0, i - 1), i + 1))}`,
        );
      }
  };

  await start();
  await api.deployProjection({ 'Totals.cs': totals() });
  for (let at = 0; at < EVENTS; at += BATCH)
    success(
      await api.post('/events/batch', {
        aggregateId: `a-${at}`,
        events: Array.from({ length: BATCH }, (_, i) => ({
          eventType: 'Added',
          data: { key: `k${i % KEYS}`, n: 1, text: TEXT },
        })),
      }),
      201,
    );
  const full = { events: EVENTS, states: KEYS, notifications: EVENTS };
  const isFull = async (): Promise<boolean> => {
    const { watermarks: _, ...now } = await counts();
    return JSON.stringify(now) === JSON.stringify(full);
  };
  await until(isFull, MS);
  const analyst = asking();
  /** Another process, which dies where it comes to `at`, over tables that have a row which the log has not. */
  const restarted = async (at: `${CrashPoint}:${number}`): Promise<void> => {
    await service.kill();
    await start(at);
    during = at;
    await until(isFull, MS);
    await addStray();
    process.kill(service.pid, 'SIGUSR2');
  };
  const isOneSet = async (): Promise<boolean> =>
    (await ask("SELECT count() FROM system.tables WHERE database = 'statefold'")) === '5\n';

  await step(t, 'statements of tenants go on over it', async () => {
    during = 'a rebuild';
    await addStray();
    success(await rebuild(), 202);
    const answers: string[] = [];
    const isThrough = async (): Promise<boolean> => (await rebuildOf())?.state === 'done';
    const asked = async (): Promise<void> => {
      if (noJail !== undefined) return until(isThrough, MS);
      // Once more when it is through.
      for (let rest = 2; rest > 0; rest -= (await isThrough()) ? 1 : 0)
        answers.push(
          success(
            await api.post('/sql', {
              query: "SELECT countIf(aggregate_id != 'stray') FROM events FINAL",
              format: 'TSV',
            }),
            200,
          ).text,
        );
    };
    await Promise.all([asked(), asked()]);
    assert.deepEqual([...new Set(answers)], noJail === undefined ? [`${EVENTS}\n`] : []);
    assert.equal(await strays(), 0);
    assert.ok(await isFull());
    const { since = '', endedAt = '' } = (await rebuildOf()) ?? {};
    assert.ok(since < endedAt);
  });

  const deaths: readonly { readonly at: `${CrashPoint}:${number}`; readonly of: string; readonly told: boolean }[] = [
    { at: 'after-read-store-insert:2', of: '', told: true },
    { at: 'in-read-store-copy:1', of: '?tenantId=default', told: true },
    { at: 'in-read-store-exchange:1', of: '', told: true },
    { at: 'in-read-store-exchange:4', of: '?tenantId=default', told: true },
    // All tables are the new ones: no process is left that would tell of it.
    { at: 'before-read-store-drop:1', of: '', told: false },
  ];
  for (const { at, of, told } of deaths)
    await step(t, at, async () => {
      await restarted(at);
      await rebuild(of).catch(() => undefined);
      await service.exited();
      await start();
      await until(async () => (await rebuildOf())?.state === (told ? 'done' : undefined), MS);
      await until(isOneSet, MS);
      assert.equal(await strays(), 0);
      assert.ok(await isFull());
    });

  const calledOff: readonly { readonly at: `${CrashPoint}:${number}`; readonly goesOn: boolean }[] = [
    { at: 'before-read-store-cancel:1', goesOn: true },
    { at: 'after-read-store-cancel:1', goesOn: false },
  ];
  for (const { at, goesOn } of calledOff)
    await step(t, at, async () => {
      await restarted(at);
      success(await rebuild(), 202);
      await until(async () => (await rebuildOf())?.state === 'filling', MS);
      await api.request('DELETE', '/admin/read-store/rebuild', AS_ADMIN).catch(() => undefined);
      await service.exited();
      await start();
      await until(async () => (await rebuildOf())?.state === (goesOn ? 'done' : undefined), MS);
      await until(isOneSet, MS);
      assert.equal(await strays(), goesOn ? 0 : 1);
      assert.ok(await isFull());
    });

  isEnded = true;
  await analyst;
  neverLess();
  for (const what of ['a rebuild', ...[...deaths, ...calledOff].map(({ at }) => at)])
    assert.ok(seen.filter((one) => one.during === what).length > 1, `nobody asked in ${what}`);
});
