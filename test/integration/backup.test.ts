// Backup while appends go on, and what is restored of it: all that was acknowledged before it, a prefix of each aggregate, the
// same states, keys and secrets; and what neither takes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { chainAfter, LANES, reducerOf, sameChain, type Chain } from '../support/checker-model.js';
import { spawnStatefold, statefold } from '../support/cli.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';
import { API_KEY, AS_ADMIN, startService, temporaryDirectory, until, type Service } from '../support/service.js';

const AGGREGATES = 8;
const CLIENTS = 4;

interface Stored {
  readonly eventId: string;
  readonly version: number;
  readonly data: { readonly id: string; readonly lane: string };
}

interface Acknowledged {
  readonly aggregateId: string;
  readonly eventId: string;
  readonly version: number;
}

const settings = (dataDirectory: string): Record<string, string> => ({ STATEFOLD_DATA_DIR: dataDirectory });

const eventsOf = async (service: Service, aggregateId: string): Promise<readonly Stored[]> =>
  (await service.get(`/events/${aggregateId}?limit=10000`)).json<{ events: Stored[] }>().events;

/** Appends by several clients until it is ended; tells what was acknowledged so far. */
function appending(service: Service): { readonly acknowledged: Acknowledged[]; end(): Promise<void> } {
  const acknowledged: Acknowledged[] = [];
  let [marks, ended] = [0, false];
  const client = async (): Promise<void> => {
    while (!ended) {
      const mark = marks++;
      const answer = await service.post('/events', {
        aggregateId: `ledger-${mark % AGGREGATES}`,
        eventType: 'Added',
        data: { id: `e${mark}`, lane: `lane-${mark % 3}` },
      });
      assert.equal(answer.status, 201, answer.text);
      acknowledged.push(answer.json<Acknowledged>());
    }
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, client));
  return {
    acknowledged,
    end: async () => {
      ended = true;
      await clients;
    },
  };
}

test('what is restored has all that was acknowledged before the backup, in its order, and goes on', async (t) => {
  const [data, elsewhere, again] = [temporaryDirectory(t), temporaryDirectory(t), join(temporaryDirectory(t), 'data')];
  const folder = join(elsewhere, 'backup');
  const before = await startService(t, { readStore: true, dataDirectory: data });
  await before.deploy('reducers', reducerOf('ledger'));
  const projectionId = await before.deploy('projections', LANES.source, {
    config: JSON.stringify({ webhook: { url: 'http://127.0.0.1:9/' } }),
  });
  assert.equal(await lastBackupTold(before), undefined);
  const load = appending(before);
  await until(() => load.acknowledged.length > 300);
  const acknowledged = [...load.acknowledged];
  const taken = await statefold(settings(data), elsewhere, 'backup', folder, '--json');
  assert.equal(taken.code, 0, taken.err);
  const { takenAt } = JSON.parse(taken.out) as { takenAt: string };
  assert.equal(await lastBackupTold(before), Date.parse(takenAt) / 1000);
  assert.equal(statSync(join(data, 'last-backup')).mode & 0o077, 0, 'what is noted of it is open to others');
  assert.deepEqual(
    readdirSync(data).filter((name) => name.endsWith('.new')),
    [],
  );
  const told = load.acknowledged.length;
  await until(() => load.acknowledged.length > told + 50);
  await load.end();
  const all = await Promise.all(Array.from({ length: AGGREGATES }, (_, i) => eventsOf(before, `ledger-${i}`)));
  const secretOf = async (service: Service): Promise<unknown> =>
    (await service.get('/webhooks/endpoints')).json<{ endpoints: unknown[] }>().endpoints.length;
  const endpoints = await secretOf(before);
  await before.kill();

  const restored = await statefold(settings(again), elsewhere, 'restore', folder);
  assert.equal(restored.code, 0, restored.err);
  assert.deepEqual(readdirSync(again).sort(), [
    ...['admin-key', 'first-key', 'format.json', 'log', 'master-key'].filter((name) => existsSync(join(data, name))),
    'restored',
  ]);
  for (const name of ['log/data.mdb', 'master-key'])
    assert.equal(statSync(join(again, name)).mode & 0o077, 0, `${name} is open to others`);
  const after = await startService(t, { readStore: true, dataDirectory: again });
  assert.equal(await secretOf(after), endpoints);
  assert.equal(await lastBackupTold(after), undefined, 'the restored one was never backed up');
  const lanes = new Map<string, Chain>();
  for (const [i, whole] of all.entries()) {
    const aggregateId = `ledger-${i}`;
    const events = await eventsOf(after, aggregateId);
    assert.deepEqual(events, whole.slice(0, events.length), 'a prefix of what there was');
    for (const one of acknowledged.filter((answer) => answer.aggregateId === aggregateId))
      assert.equal(events[one.version - 1]?.eventId, one.eventId, 'what was acknowledged before the backup');
    const state = events.reduce<Chain>((chain, { data: { id } }) => chainAfter(chain, id), null);
    const answer = await after.get(`/aggregate-types/ledger/${aggregateId}/state`);
    assert.ok(sameChain(answer.json<{ state: Chain }>().state, state), answer.text);
    const next = await after.post('/events', {
      aggregateId,
      eventType: 'Added',
      data: { id: `after-${i}`, lane: 'after' },
      expectedVersion: events.length,
    });
    assert.equal(next.status, 201, next.text);
  }
  const order = (await feedOf(after)).filter(({ data: { lane } }) => lane !== 'after');
  for (const { data: of } of order) lanes.set(of.lane, chainAfter(lanes.get(of.lane) ?? null, of.id));
  for (const [lane, chain] of lanes)
    await until(async () => {
      const answer = await after.get(`/projections/${projectionId}/states/${lane}`);
      return answer.status === 200 && sameChain(answer.json<{ states: [{ state: Chain }] }>().states[0].state, chain);
    });
  // The read store is made again of the log: events that were appended since, and those of the backup.
  const rows = order.length + AGGREGATES;
  await until(async () => {
    const { text } = await after.get('/metrics', AS_ADMIN);
    return text.includes(`statefold_read_store_rows_total{table="events"} ${rows}\n`);
  });
});

test('what was erased before the backup makes no projection that had seen it a suspect in the restored one', async (t) => {
  const [data, elsewhere, again] = [temporaryDirectory(t), temporaryDirectory(t), join(temporaryDirectory(t), 'data')];
  const before = await startService(t, { dataDirectory: data });
  const projectionId = await before.deploy('projections', LANES.source);
  const added = (mark: number): object => ({ eventType: 'Added', data: { id: `e${mark}`, lane: `lane-${mark % 2}` } });
  for (let mark = 0; mark < 60; mark++)
    assert.equal((await before.post('/events', { aggregateId: `ledger-${mark % 5}`, ...added(mark) })).status, 201);
  const appends = [
    { aggregateId: 'ledger-1', events: [added(60)] },
    { aggregateId: 'ledger-2', events: [added(61)] },
  ];
  assert.equal((await before.post('/events/transaction', { appends })).status, 201);
  const toldBy = async (service: Service): Promise<readonly string[]> =>
    Promise.all(
      ['lane-0', 'lane-1'].map(async (key) => (await service.get(`/projections/${projectionId}/states/${key}`)).text),
    );
  await until(async () => (await toldBy(before)).join().includes('"last":"e61"'));
  const told = await toldBy(before);
  for (const id of ['ledger-0', 'ledger-1'])
    assert.equal((await before.request('DELETE', `/aggregates/${id}`)).status, 202);
  const folder = join(elsewhere, 'backup');
  assert.equal((await statefold(settings(data), elsewhere, 'backup', folder)).code, 0);
  await before.kill();

  assert.equal((await statefold(settings(again), elsewhere, 'restore', folder)).code, 0);
  const after = await startService(t, { dataDirectory: again, env: { LOG_LEVEL: 'info' } });
  await until(async () => (await toldBy(after)).join() === told.join());
  const status = (await after.get(`/projections/${projectionId}/status`)).json();
  assert.deepEqual(
    { faultCount: status['faultCount'], erased: status['erasedSinceBuild'] },
    { faultCount: 0, erased: true },
  );
  const verified = await statefold(
    { STATEFOLD_URL: after.url, STATEFOLD_API_KEY: API_KEY },
    elsewhere,
    ...['verify', '--projection', projectionId],
  );
  assert.equal(verified.code, 1);
  assert.match(verified.out, /Aggregates were erased since the projection was built/);
  const lines = after.output
    .split('\n')
    .filter((line) => line.includes('another state'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    lines.map(({ level, tenantId, projectionId: of }) => ({ level, tenantId, of })),
    [{ level: 'info', tenantId: 'default', of: projectionId }],
  );
  assert.match(String(lines[0]?.['msg']), /erased since/);
});

/** Seconds since the epoch, as the metric has it. */
async function lastBackupTold(service: Service): Promise<number | undefined> {
  const { text } = await service.get('/metrics', AS_ADMIN);
  const told = /^statefold_last_backup_timestamp_seconds (\S+)$/m.exec(text)?.[1];
  return told === undefined ? undefined : Number(told);
}

async function feedOf(service: Service): Promise<readonly Stored[]> {
  const out: Stored[] = [];
  for (let after = 0; ;) {
    const page = (await service.get(`/feed?after=${after}&limit=1000`)).json<{ events: Stored[]; position: number }>();
    if (page.events.length === 0) return out;
    out.push(...page.events);
    after = page.position;
  }
}

/** A data directory with one event, and its backup; nobody uses them. */
async function madeOnce(
  t: TestContext,
): Promise<{ readonly data: string; readonly folder: string; readonly elsewhere: string }> {
  const [data, elsewhere] = [temporaryDirectory(t), temporaryDirectory(t)];
  const service = await startService(t, { readStore: true, dataDirectory: data });
  const answer = await service.post('/events', { aggregateId: 'a-1', eventType: 'Added', data: {} });
  assert.equal(answer.status, 201, answer.text);
  await service.stop();
  const folder = join(elsewhere, 'backup');
  const taken = await statefold(settings(data), elsewhere, 'backup', folder);
  assert.equal(taken.code, 0, taken.err);
  assert.match(taken.out, /MiB, of all that was acknowledged until/);
  return { data, folder, elsewhere };
}

test('a backup, and a restore, that can not be are refused with what to do', async (t) => {
  const { data, folder, elsewhere } = await madeOnce(t);
  const refused = async (env: Readonly<Record<string, string>>, expected: RegExp, ...args: string[]): Promise<void> => {
    const { code, err } = await statefold(env, elsewhere, ...args);
    assert.equal(code, 1, err);
    assert.match(err, expected);
  };
  const fresh = join(elsewhere, 'fresh');
  await refused(settings(data), /is not empty: a backup is made in a folder of its own/, 'backup', folder);
  await refused(settings(elsewhere), /is no data directory with a log/, 'backup', fresh);
  await refused({ ...settings(data), KAFKA_BROKERS: '127.0.0.1:9' }, /the log is on Kafka/, 'backup', fresh);
  await refused(settings(data), /is not empty: a backup is restored into a new data directory/, 'restore', folder);
  await refused(settings(fresh), /is no whole backup/, 'restore', data);
  assert.ok(!existsSync(fresh));

  const manifest = join(folder, 'backup.json');
  const text = readFileSync(manifest, 'utf8');
  writeFileSync(manifest, text.replace(/"format": \d+/, '"format": 999'));
  await refused(settings(fresh), /made by a newer Statefold/, 'restore', folder);
  writeFileSync(manifest, '{}');
  await refused(settings(fresh), /not as 'statefold backup' writes it/, 'restore', folder);
  const listed = JSON.parse(text) as { readonly files: readonly { readonly name: string }[] };
  const [first] = listed.files;
  for (const files of [
    [],
    listed.files.filter(({ name }) => name !== 'log/data.mdb'),
    [...listed.files, first],
    [...listed.files, { ...first, name: '../outside' }],
  ]) {
    writeFileSync(manifest, JSON.stringify({ ...listed, files }));
    await refused(settings(fresh), /not as 'statefold backup' writes it/, 'restore', folder);
  }
  assert.ok(!existsSync(fresh));
  writeFileSync(manifest, text);

  const bent = join(elsewhere, 'bent');
  cpSync(folder, bent, { recursive: true });
  const log = readFileSync(join(bent, 'log', 'data.mdb'));
  log.writeUInt8(log.readUInt8(log.length - 100) ^ 1, log.length - 100);
  writeFileSync(join(bent, 'log', 'data.mdb'), log);
  await refused(settings(fresh), /is not what was backed up/, 'restore', bent);
  // Half restored, as after a kill: no service starts on it, and a whole backup can be restored over it.
  await assert.rejects(startService(t, { readStore: true, dataDirectory: fresh }), /A restore into .* was cut off/);
  assert.equal((await statefold(settings(fresh), elsewhere, 'restore', folder)).code, 0);
  const service = await startService(t, { readStore: true, dataDirectory: fresh });
  assert.equal((await eventsOf(service, 'a-1')).length, 1);
  await refused(settings(fresh), /is in use by another Statefold/, 'restore', folder);
  mkdirSync(join(elsewhere, 'empty'));
  const { code } = await statefold(settings(fresh), elsewhere, 'backup', join(elsewhere, 'empty'));
  assert.equal(code, 0, 'an empty folder will do');
});

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'] as const)
  test(`a backup that ${signal} ends halfway is none, and the next one is made in its place`, async (t) => {
    const { data, elsewhere } = await madeOnce(t);
    const folder = join(elsewhere, 'cut');
    // What is copied behind the log, and gives nothing until somebody writes to it.
    execFileSync('mkfifo', [join(data, 'first-key')]);
    const backup = spawnStatefold(settings(data), elsewhere, 'backup', folder);
    t.after(() => backup.kill('SIGKILL'));
    await until(() => existsSync(join(folder, '.part', 'master-key')));
    const whileMade = await statefold(settings(join(elsewhere, 'fresh')), elsewhere, 'restore', folder);
    assert.equal(whileMade.code, 1);
    assert.match(whileMade.err, /is no whole backup: it is being made, or was cut off/);
    const second = await statefold(settings(data), elsewhere, 'backup', folder);
    assert.equal(second.code, 1);
    assert.match(second.err, /Another backup is being made in/);
    const closed = once(backup, 'close');
    backup.kill(signal);
    assert.deepEqual(await closed, [null, signal]);
    assert.equal(existsSync(folder), signal === 'SIGKILL', 'what can be removed is');
    if (signal === 'SIGKILL') {
      const { code, err } = await statefold(settings(join(elsewhere, 'fresh')), elsewhere, 'restore', folder);
      assert.equal(code, 1);
      assert.match(err, /is no whole backup: it is being made, or was cut off/);
      assert.ok(!existsSync(join(elsewhere, 'fresh')));
    }
    rmSync(join(data, 'first-key'));
    const again = await statefold(settings(data), elsewhere, 'backup', folder);
    assert.equal(again.code, 0, again.err);
    assert.ok(existsSync(join(folder, 'backup.json')));
    assert.ok(!existsSync(join(folder, '.part')));
    const restored = await statefold(settings(join(elsewhere, 'fresh')), elsewhere, 'restore', folder);
    assert.equal(restored.code, 0, restored.err);
  });

test('where a backup can not be made at all, it says so and leaves nothing', async (t) => {
  const { data, elsewhere } = await madeOnce(t);
  const nowhere = await statefold(settings(data), elsewhere, 'backup', '/proc/nope');
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.err, /The backup could not be made: ENOENT.*Nothing of it was left/);
  const disk = smallDisk(t, 1);
  if (disk === undefined) return void t.diagnostic(NO_SMALL_DISK);
  fill(join(disk, 'balloon'));
  const full = await statefold(settings(data), elsewhere, 'backup', join(disk, 'backup'));
  assert.equal(full.code, 1);
  assert.match(full.err, /The backup could not be made: .*Nothing of it was left/);
  assert.deepEqual(readdirSync(disk), ['balloon']);
});

test('a restore that has no room says so, and is run again when there is some', async (t) => {
  const { data, elsewhere } = await madeOnce(t);
  const folder = join(elsewhere, 'kept');
  assert.equal((await statefold(settings(data), elsewhere, 'backup', folder)).code, 0);
  const disk = smallDisk(t, 1);
  if (disk === undefined) return void t.diagnostic(NO_SMALL_DISK);
  const [target, balloon] = [join(disk, 'restored'), join(disk, 'balloon')];
  mkdirSync(target);
  fill(balloon);
  const full = await statefold(settings(target), elsewhere, 'restore', folder);
  assert.equal(full.code, 1);
  assert.match(full.err, /^The backup could not be restored: ENOSPC.* until that is put right and .* run again\.\n$/);
  rmSync(balloon);
  const again = await statefold(settings(target), elsewhere, 'restore', folder);
  assert.equal(again.code, 0, again.err);
});

test('a backup is whole also where the data directory can not be told of it, and says so', async (t) => {
  const { data, elsewhere } = await madeOnce(t);
  rmSync(join(data, 'last-backup'));
  mkdirSync(join(data, 'last-backup'));
  const taken = await statefold(settings(data), elsewhere, 'backup', join(elsewhere, 'untold'));
  assert.equal(taken.code, 0, taken.err);
  assert.match(taken.err, /The backup is whole, but the data directory could not be told of it \(.+\)/);
  assert.ok(!existsSync(join(data, 'last-backup.new')));
  const restored = await statefold(settings(join(elsewhere, 'fresh')), elsewhere, 'restore', join(elsewhere, 'untold'));
  assert.equal(restored.code, 0, restored.err);
});
