// Invariants 1 to 7 and 9 to 13, and 18: keys that stand at an event are taken on while the service, or the code's process, dies
// over and over under load: each of their events counts once, in order, and nobody else's append notices.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainAfter, CLEARED, reducerOf, sameChain, type Chain } from '../support/checker-model.js';
import { Scenario, step } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const RUNNER = 'Statefold.Runner.dll';
const BAD = 'Bad';
/** Between two events that throw: more than a batch of the code, and more than goes in a produce. */
const PARKED = 1300;
const BATCH = 500;
const KILLS = 3;

/** Instead of what ends a chain. */
const throwing = (source: string): string =>
  source.replace(`"${CLEARED}" ? null`, `"${BAD}" ? throw new InvalidOperationException("bad")`);
const PROJECTION = throwing(`namespace Faults;
public sealed class Poisoned : IProjection<Chain>
{
    public string? ResolveKey(Event e) => e.AggregateType == "poison" ? "all" : null;
    public Chain? Apply(Chain? chain, Event e) => e.EventType == "${CLEARED}" ? null : Chain.After(chain, e);
}
${(reducerOf('x')['reducer.cs'] ?? '').split('\n').slice(6).join('\n')}`);

interface Standing {
  readonly version?: number;
  readonly state: Chain;
  readonly fault?: { readonly version: number };
}

test('kill -9 in a retry and a skip', async (t) => {
  const scenario = Scenario.alone(t, { seed: 606 });
  const { world, load, history } = scenario;
  await scenario.begin('in-release:2');
  const post = async (path: string, body: object = {}): Promise<{ status: number; text: string }> =>
    world.service.request('POST', path, { body });
  /** The process dies before it answers. */
  const unanswered = (path: string, body?: object): Promise<void> =>
    post(path, body).then(
      () => undefined,
      () => undefined,
    );
  const get = async <T>(path: string): Promise<T> => {
    const answer = await world.service.get(path);
    assert.equal(answer.status, 200, answer.text);
    return answer.json<T>();
  };

  /** What the key and the aggregate are to be: all events but those that throw. */
  const marks = [1, 2, 3]
    .flatMap((part) => [
      ...(part === 1 ? ['good'] : Array.from({ length: PARKED }, () => 'good')),
      ...(part === 3 ? [] : [BAD]),
    ])
    .map((eventType, i) => ({ eventType, mark: `z${i}` }));
  const [first = 0, second = 0] = marks.flatMap(({ eventType }, i) => (eventType === BAD ? [i + 1] : []));
  const chains: Chain[] = [null];
  for (const { eventType, mark } of marks) if (eventType !== BAD) chains.push(chainAfter(chains.at(-1) ?? null, mark));

  let projectionId = '';
  const key = async (): Promise<Standing> =>
    (await get<{ states: readonly Standing[] }>(`/projections/${projectionId}/states/all`)).states[0] ?? {
      state: null,
    };
  const aggregate = (): Promise<Standing> => get<Standing>('/aggregate-types/poison/poison-1/state');
  const standsAt = async (standing: () => Promise<Standing>, version: number | undefined): Promise<void> =>
    until(async () => (await standing()).fault?.version === version, 60_000);

  await step(t, 'a key and an aggregate stand at an event, with many behind it', async () => {
    await world.service.deploy('reducers', { 'reducer.cs': throwing(reducerOf('poison')['reducer.cs'] ?? '') });
    projectionId = (await world.service.upload('projections', { 'poisoned.cs': PROJECTION })).json<{
      projectionId: string;
    }>().projectionId;
    await until(async () => {
      const { status, build } = await get<{ status: string; build?: object }>(`/projections/${projectionId}/status`);
      assert.notEqual(status, 'failed');
      return status === 'compiled' && build === undefined;
    });
    for (let at = 0, command = 1_000_000; at < marks.length; at += BATCH, command++) {
      const events = marks.slice(at, at + BATCH).map(({ eventType, mark }) => ({ eventType, mark, lane: 'poison' }));
      const request = { kind: 'append', command, aggregateId: 'poison-1', batch: true, events } as const;
      const outcome = await history.record(request, async () => {
        const answer = await post('/events/batch', {
          aggregateId: 'poison-1',
          events: events.map(({ eventType, mark, lane }) => ({ eventType, data: { id: mark, lane } })),
        });
        return { status: answer.status, body: JSON.parse(answer.text) as Record<string, unknown> };
      });
      assert.equal(outcome.kind === 'answered' ? outcome.status : 0, 201);
    }
    await standsAt(key, first);
    await standsAt(aggregate, first);
  });

  await step(t, 'the service dies in the fold of a skip: it is done by the next one', async () => {
    await scenario.crash('its own', () => unanswered(`/projections/${projectionId}/states/all/skip`));
    await scenario.logOnlyGrew();
    await world.start('after-release-write:1');
    await standsAt(key, second);
    assert.ok(sameChain((await key()).state, chains[second - 2] ?? null));
  });

  await step(t, 'the service dies when some of the states are written: they are told once', async () => {
    await load.stop();
    await scenario.crash('its own', () =>
      unanswered(`/projections/${projectionId}/states/all/skip`, { version: second }),
    );
    await scenario.logOnlyGrew();
    await world.start();
    await standsAt(key, undefined);
  });

  await step(t, "the code's process dies while an aggregate is taken on: it is as if it had not", async () => {
    await load.stop();
    load.start();
    const before = history.operations.length;
    const killed: number[] = [];
    for (const version of [first, second]) {
      const skipped = post('/aggregate-types/poison/poison-1/skip', { version });
      for (let kill = 0; kill < KILLS; kill++) {
        const pid = await world.child(RUNNER, killed);
        process.kill(pid, 'SIGKILL');
        killed.push(pid);
        const due = history.acknowledged + 5;
        await until(() => history.acknowledged >= due);
      }
      assert.equal((await skipped).status, 200, (await skipped).text);
      await standsAt(aggregate, version === first ? second : undefined);
    }
    const { version, state } = await aggregate();
    assert.equal(version, marks.length);
    assert.ok(sameChain(state, chains.at(-1) ?? null), JSON.stringify(state));
    const refused = history.operations
      .slice(before)
      .filter(
        ({ request, outcome }) => request.kind === 'append' && (outcome.kind === 'lost' || outcome.status >= 500),
      );
    assert.deepEqual(refused, [], '18: an append needs no code: none was refused or lost');
  });

  await step(t, '11, 12: each event that did not throw was told once, in order', async () => {
    assert.ok(sameChain((await key()).state, chains.at(-1) ?? null));
    const told: { state: Chain; sequence: number; cause?: string }[] = [];
    for (;;) {
      const { notifications } = await get<{ notifications: typeof told }>(
        `/projections/${projectionId}/notifications?limit=1000&afterSequence=${told.at(-1)?.sequence ?? 0}`,
      );
      if (notifications.length === 0) break;
      told.push(...notifications);
    }
    assert.deepEqual(
      told.map(({ state }) => state?.count),
      chains.slice(1).map((chain) => chain?.count),
    );
    assert.ok(told.every(({ state }, i) => sameChain(state, chains[i + 1] ?? null)));
    assert.deepEqual(new Set(told.slice(1).map(({ cause }) => cause)), new Set(['skip']));
  });

  await scenario.prove();
});
