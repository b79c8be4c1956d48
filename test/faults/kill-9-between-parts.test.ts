// Invariants 9, 11 and 12: one event changes more keys than go in a produce, and the service dies between the parts. What was
// told stays, the next process writes the rest, each key once, and a store that is lost comes to the same.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Api, success, type Notification } from '../support/api.js';
import type { CrashPoint } from '../support/faulty-service.js';
import { freshPrefix, kafkaForTests, needsKafka } from '../support/kafka.js';
import { step } from '../support/load-scenario.js';
import {
  FAULTY_SERVICE,
  programOf,
  startService,
  temporaryDirectory,
  until,
  type Service,
} from '../support/service.js';

const KEYS = 900;
/** Of a state after the first event, at least: all of them are more than any log takes at once. */
const LARGE = 20_000;
/** After each later one: all of them are more than go in two produces. */
const STATE_BYTES = 10_000;

const wide = `namespace Tests;

public sealed class Wide : IMultiKeyProjection<WideState>
{
    public IEnumerable<string> ResolveKeys(Event e) =>
        Enumerable.Range(0, e.Data.GetProperty("keys").GetInt32()).Select(i => $"k{i:D4}").ToArray();

    public WideState? Apply(WideState? state, Event e, string key) =>
        new((state?.Total ?? 0) + e.Data.GetProperty("n").GetInt64(), new string('x', e.Data.GetProperty("pad").GetInt32()));

    public WideState? Apply(WideState? state, Event e) => null;
}

public sealed record WideState(long Total, string Pad);
`;

/** A sum of a key each: told beside the parts, by the same events. */
const beside = `namespace Tests;

public sealed class Beside : IProjection<BesideState>
{
    public string? ResolveKey(Event e) => e.AggregateId;
    public BesideState? Apply(BesideState? state, Event e) => new((state?.Total ?? 0) + e.Data.GetProperty("n").GetInt64());
}

public sealed record BesideState(long Total);
`;

interface Told {
  readonly sequence: number;
  readonly key: string;
  readonly total: number;
}

const NAME = 'kill -9 between the parts of one event';
test(NAME, (t) => scenario(t, {}));

test(`${NAME}, on Kafka`, { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  await scenario(t, {
    KAFKA_BROKERS: brokers.join(','),
    KAFKA_TOPIC_PREFIX: freshPrefix(),
    KAFKA_SESSION_TIMEOUT_MS: '6000',
  });
});

async function scenario(t: TestContext, log: Readonly<Record<string, string>>): Promise<void> {
  const dataDirectory = temporaryDirectory(t);
  let service: Service;
  let api!: Api;
  const start = async (fuse?: `${CrashPoint}:${number}`): Promise<void> => {
    // An event of so many keys takes its time on a busy machine, and is none the worse for it.
    const env = { ...log, FUSE: fuse ?? '', RUNNER_EVENT_DEADLINE_MS: '60000', RUNNER_BATCH_DEADLINE_MS: '60000' };
    service = await startService(t, { dataDirectory, program: programOf(FAULTY_SERVICE), env });
    api = new Api(service);
  };
  const ids = { wide: '', beside: '' };
  const told = async (id: string, behind: readonly Told[] = []): Promise<Told[]> => {
    const all = [...behind];
    for (;;) {
      const { notifications } = await api.read<{ notifications: (Notification & { state: { total: number } })[] }>(
        `/projections/${id}/notifications?limit=200&afterSequence=${all.at(-1)?.sequence ?? 0}`,
      );
      if (notifications.length === 0) return all;
      for (const { sequence, key, state } of notifications) all.push({ sequence, key, total: state.total });
    }
  };
  const statesOf = async (id: string): Promise<ReadonlyMap<string, number>> => {
    const found = new Map<string, number>();
    for (let cursor = ''; ;) {
      const page = await api.read<{ states: { key: string; state: { total: number } }[]; nextCursor?: string }>(
        `/projections/${id}/states?limit=200${cursor}`,
      );
      for (const one of page.states) found.set(one.key, one.state.total);
      if (page.nextCursor === undefined) return found;
      cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
    }
  };
  const stateOf = async (id: string, key: string): Promise<number | undefined> => {
    const answer = await api.get(`/projections/${id}/states/${key}`);
    return answer.status === 200
      ? answer.json<{ states: { state: { total: number } }[] }>().states[0]?.state.total
      : undefined;
  };
  let event = 0;
  let sum = 0;
  const append = async (): Promise<void> => {
    const pad = event === 0 ? LARGE : STATE_BYTES;
    const n = 10 ** event++;
    sum += n;
    await api.append('a', 'Added', { keys: KEYS, n, pad });
  };
  const key = (i: number): string => `k${String(i).padStart(4, '0')}`;
  let before: Told[] = [];
  /** Each key once more, in their order, behind what was told before; `beside` likewise. */
  const isWhole = async (): Promise<void> => {
    await until(async () => (await stateOf(ids.beside, 'a')) === sum, 60_000);
    await until(async () => (await stateOf(ids.wide, key(KEYS - 1))) === sum, 120_000);
    const states = await statesOf(ids.wide);
    assert.equal(states.size, KEYS);
    assert.ok([...states.values()].every((total) => total === sum));
    const now = await told(ids.wide, before);
    const fresh = now.slice(before.length);
    assert.deepEqual(
      fresh.map((one) => one.key),
      Array.from({ length: KEYS }, (_, i) => key(i)),
    );
    assert.ok(fresh.every(({ total }) => total === sum));
    now.forEach(({ sequence }, i) => assert.ok(i === 0 || sequence > (now[i - 1]?.sequence ?? 0)));
    before = now;
    assert.equal((await told(ids.beside)).length, event);
  };
  /** It dies when the event was taken, between the parts of its changes. */
  const dies = async (): Promise<void> => {
    process.kill(service.pid, 'SIGUSR2');
    await append();
    await service.exited();
  };

  await step(t, 'an event whose changes are more than the log takes at once is told whole', async () => {
    await start('between-parts:1');
    ids.wide = await api.deployProjection({ 'Wide.cs': wide });
    ids.beside = await api.deployProjection({ 'Beside.cs': beside });
    await append();
    await isWhole();
  });

  await step(t, 'it dies when the first part is on disk', async () => {
    await dies();
    await start('told-between-parts:2');
    await isWhole();
  });

  await step(t, 'it dies when parts are told, and goes on without its store', async () => {
    await dies();
    rmSync(join(dataDirectory, 'store'), { recursive: true });
    await start('told-between-parts:1');
    await isWhole();
  });

  await step(t, 'it dies once more, with what it has of the parts in its store', async () => {
    await dies();
    await start();
    await isWhole();
    await append();
    await isWhole();
  });

  await step(t, 'what was told stays told, and what is stored is what the events give', async () => {
    assert.deepEqual(await told(ids.wide), before);
    const { checked, equal } = success(await api.post(`/projections/${ids.wide}/verify`, { sample: 50 }), 200).json<
      Record<'checked' | 'equal', number>
    >();
    assert.deepEqual([checked, equal], [50, 50]);
  });
}
